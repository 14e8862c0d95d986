"""COCO's own annotations: ``annotations/captions_train2017.json`` beside ``train2017/``, and the
same for val.

Lin et al., "Microsoft COCO: Common Objects in Context", ECCV 2014; Chen et al., arXiv:1504.00325.
Its test captions are not public; published retrieval results use the splits of ``karpathy``."""

from collections import defaultdict
from pathlib import Path

from pydantic.dataclasses import dataclass as checked

from vse_pipe.core.errors import InputError
from vse_pipe.prepare import shards
from vse_pipe.prepare import source as sources
from vse_pipe.prepare.assembly import Assembly
from vse_pipe.prepare.captions import caption
from vse_pipe.prepare.formats.options import CocoOptions as Params


@checked(config=sources.STRICT, slots=True)
class _Picture:
    id: sources.Id
    file_name: str


@checked(config=sources.STRICT, slots=True)
class _Annotation:
    id: sources.Id
    image_id: sources.Id
    caption: str | None


@checked(config=sources.STRICT, slots=True)
class _Annotations:
    images: list[_Picture]
    annotations: list[_Annotation]


def read(source: Path, out: Path, params: Params, seed: int) -> sources.Source:
    """source: the folder of ``annotations`` and the pictures' folders, or one json beside them.

    image_id and caption_id are the ids of images and annotations, numbers or text; the captions of
    an image are in the order of their ids. Raises InputError for a field that is missing or of the
    wrong type, a repeated id or file name and an annotation of an unknown image."""
    root, documents = shards.files(sources.existing(source), params, ".json")
    assembly = Assembly(root)
    places: dict[str, str] = {}
    for path, split in documents:
        content, of_image = sources.parse(path, _Annotations), defaultdict(list)
        folder = f"{params.folder(path)}/".removeprefix("/")
        for annotation in content.annotations:
            of_image[annotation.image_id].append(annotation)
        if not of_image:
            raise InputError(f"{path}: no image has an annotation")
        for number, picture in enumerate(content.images):
            where, file = f"{path.name} images[{number}]", sources.file_name(f"{folder}{picture.file_name}")
            sources.refuse_repeated(places, file, "file", where)
            chosen = params.drawn(file, seed) if split == "train" else split
            image = assembly.image(file, chosen, where, picture.id)
            annotations = sorted(of_image.pop(picture.id, []), key=lambda entry: (str(type(entry.id)), entry.id))
            for annotation in annotations[: params.max_captions]:
                place = f"{where} annotation {annotation.id}"
                assembly.caption(image, caption(annotation.caption, place), place, annotation.id)
        if of_image:
            raise InputError(
                f"{path}: annotations of image {next(iter(of_image))}, which it does not have, or has twice"
            )
    return assembly.source()
