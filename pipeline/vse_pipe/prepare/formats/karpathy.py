"""Karpathy's layout: ``dataset_<name>.json`` beside a folder of images (Flickr8k, Flickr30k, COCO).

Karpathy and Fei-Fei, "Deep Visual-Semantic Alignments for Generating Image Descriptions", CVPR 2015; its splits are
those of VSE++, SCAN, HAL and L2RM. The caption is ``raw``; ``tokens`` is not read. The authors' repositories keep the
first 5 captions of the COCO images that have 6 or 7: that is ``max_captions: 5``, while the default keeps all."""

from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pydantic.dataclasses import dataclass as checked

from vse_pipe.artifacts.names import TextIds
from vse_pipe.core.errors import InputError
from vse_pipe.prepare import source as sources
from vse_pipe.prepare.captions import caption
from vse_pipe.prepare.documents import STRICT, Id, parse
from vse_pipe.prepare.formats.options import KarpathyOptions as Params
from vse_pipe.prepare.scan import scan


@checked(config=STRICT, slots=True)
class _Sentence:
    raw: str | None
    sentid: Id | None = None
    imgid: Id | None = None


@checked(config=STRICT, slots=True)
class _Entry:
    filename: str
    split: str
    sentences: list[_Sentence]
    filepath: str = ""
    imgid: Id | None = None


@checked(config=STRICT, slots=True)
class _Document:
    images: list[_Entry]


@dataclass(frozen=True)
class _Image:
    where: str
    image_id: int
    file: str
    split: str
    sentences: list[_Sentence]


def read(source: Path, out: Path, params: Params, seed: int) -> sources.Source:
    """source: the json, or a folder with exactly one ``dataset_*.json``.

    image_id is ``imgid`` and caption_id ``sentid``, numbers or text; without them, running numbers. Raises InputError
    naming the entry for a field that is missing or of the wrong type, a repeated id or file name, an unknown split, a
    sentence of another image."""
    document = _find(sources.existing(source))
    entries = parse(document, _Document).images
    images, named = _images(document.name, entries, params.val, seed)
    if not params.include_restval:
        images = [image for image, entry in zip(images, entries, strict=True) if entry.split != "restval"]
    if not images:
        raise InputError(f"{document}: no images to read")
    if not any(image.sentences for image in images):
        raise InputError(f"{document}: no image has a sentence")
    captions, called = _captions(images, params.max_captions)
    root = document.parent / params.images
    scanned = scan(root, [image.file for image in images], lambda number: images[number].where)
    table = sources.image_table(
        [image.image_id for image in images],
        [image.file for image in images],
        [image.split for image in images],
        scanned.widths,
        scanned.heights,
        scanned.digests,
    )
    names = TextIds.from_columns(**named, **called) if named or called else None
    return sources.Source(table, captions, str(root), scanned.broken, names=names)


def _find(source: Path) -> Path:
    if source.is_file():
        return source
    documents = sorted(source.glob("dataset_*.json"))
    if len(documents) != 1:
        names = f": {', '.join(path.name for path in documents)}; name one of them in `source`" if documents else ""
        raise InputError(f"{source}: expected exactly one dataset_*.json, found {len(documents)}{names}")
    return documents[0]


def _images(name: str, entries: list[_Entry], val: float, seed: int) -> tuple[list[_Image], sources.Named]:
    has_ids = bool(entries) and entries[0].imgid is not None
    files = sources.Unique("file")
    images = []
    for number, entry in enumerate(entries):
        where = f"{name} images[{number}]"
        if (entry.imgid is not None) != has_ids:
            raise InputError(f"{where}: imgid must be given for every image or for none")
        file = files.add(
            sources.file_name(f"{entry.filepath}/{entry.filename}" if entry.filepath else entry.filename), where
        )
        _refuse_strangers(entry, where)
        split = sources.split_of(entry.split, where)
        split = sources.drawn_split(file, val, 0.0, seed) if val and split == "train" else split
        images.append(_Image(where, number, file, split, entry.sentences))
    if not has_ids:
        return images, {}
    ids = [entry.imgid for entry in entries if entry.imgid is not None]
    numbers, named = sources.numbered(ids, "image_id", lambda place: images[place].where, "imgid")
    return [replace(image, image_id=number) for image, number in zip(images, numbers, strict=True)], named


def _refuse_strangers(entry: _Entry, where: str) -> None:
    for number, sentence in enumerate(entry.sentences):
        if entry.imgid is not None and sentence.imgid not in (None, entry.imgid):
            raise InputError(
                f"{where}.sentences[{number}]: imgid {sentence.imgid}, but its image has imgid {entry.imgid}"
            )


def _captions(images: list[_Image], most: int | None) -> tuple[pa.Table, sources.Named]:
    # Numbers that begin anew in each image are no ids.
    restarts = len(images) > 1 and all(
        [sentence.sentid for sentence in image.sentences] == list(range(len(image.sentences))) for image in images
    )
    has_ids = not restarts and next(one.sentences[0] for one in images if one.sentences).sentid is not None
    rows: list[tuple] = []
    chosen: list[int] = []
    ids: list[int | str] = []
    places: list[str] = []
    for image in images:
        for number, sentence in enumerate(image.sentences):
            where = f"{image.where}.sentences[{number}]"
            if not restarts and (sentence.sentid is not None) != has_ids:
                raise InputError(f"{where}: sentid must be given for every sentence or for none")
            text = caption(sentence.raw, where)
            if most is None or number < most:
                chosen.append(len(ids))
                rows.append((image.image_id, text, image.split))
            ids.append(len(rows) - 1 if sentence.sentid is None or restarts else sentence.sentid)
            places.append(where)
    if not has_ids:
        return sources.caption_table(range(len(rows)), *zip(*rows, strict=True)), {}
    numbers, named = sources.numbered(ids, "caption_id", places.__getitem__, "sentid")
    return sources.caption_table([numbers[place] for place in chosen], *zip(*rows, strict=True)), named
