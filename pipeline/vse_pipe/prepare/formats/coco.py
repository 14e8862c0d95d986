"""COCO's own annotations: ``annotations/captions_train2017.json`` beside ``train2017/``, and the same for val.

Lin et al., "Microsoft COCO: Common Objects in Context", ECCV 2014; Chen et al., arXiv:1504.00325. Its test captions are
not public; published retrieval results use the splits of ``karpathy``."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from pydantic.dataclasses import dataclass as checked

from vse_pipe.core.errors import InputError
from vse_pipe.prepare import shards
from vse_pipe.prepare import source as sources
from vse_pipe.prepare.assembly import Assembly
from vse_pipe.prepare.captions import caption
from vse_pipe.prepare.documents import STRICT, Id, parse
from vse_pipe.prepare.formats.options import CocoOptions as Params


@checked(config=STRICT, slots=True)
class _Picture:
    id: Id
    file_name: str


@checked(config=STRICT, slots=True)
class _Annotation:
    id: Id
    image_id: Id
    caption: str | None


@checked(config=STRICT, slots=True)
class _Annotations:
    images: list[_Picture]
    annotations: list[_Annotation]


@dataclass(frozen=True, slots=True)
class _Annotated:
    where: str
    image_id: int | str
    file: str
    split: str
    annotations: list[_Annotation]


def read(source: Path, out: Path, params: Params, seed: int) -> sources.Source:
    """source: the folder of ``annotations`` and the pictures' folders, or one json beside them.

    image_id and caption_id are the ids of images and annotations, numbers or text; the captions of an image are in the
    order of their ids. Raises InputError for a field that is missing or of the wrong type, a repeated id or file name
    and an annotation of an unknown image."""
    root, documents = shards.files(sources.existing(source), params, ".json")
    images = [image for path, split in documents for image in _images(root, path, split, params, seed)]
    if not any(image.annotations for image in images):
        raise InputError(f"{root}: no image has an annotation")
    sources.refuse_repeated([image.file for image in images], "file", lambda place: images[place].where)
    assembly = Assembly(root, out)
    for image in images:
        number = assembly.image(image.file, image.split, image.where, image.image_id)
        for annotation in image.annotations[: params.max_captions]:
            where = f"{image.where} annotation {annotation.id}"
            assembly.caption(number, caption(annotation.caption, where), image.split, where, annotation.id)
    return assembly.source()


def _images(root: Path, path: Path, split: str, params: Params, seed: int) -> list[_Annotated]:
    """The images of a json with their annotations."""
    content, folder = parse(path, _Annotations), params.folder(path)
    of_image: dict[int | str, list[_Annotation]] = defaultdict(list)
    for annotation in content.annotations:
        of_image[annotation.image_id].append(annotation)
    images = []
    for number, picture in enumerate(content.images):
        file = sources.file_name(f"{folder}/{picture.file_name}" if folder else picture.file_name)
        chosen = shards.drawn(params, file, seed) if split == "train" else split
        annotations = sorted(
            of_image.pop(picture.id, []), key=lambda annotation: (str(type(annotation.id)), annotation.id)
        )
        images.append(_Annotated(f"{path.name} images[{number}]", picture.id, file, chosen, annotations))
    if of_image:
        raise InputError(f"{path}: annotations of image {next(iter(of_image))}, which it does not have, or has twice")
    return images
