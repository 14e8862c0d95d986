"""Karpathy's layout: ``dataset_<name>.json`` beside a folder of images (Flickr8k, Flickr30k, COCO).

Karpathy and Fei-Fei, "Deep Visual-Semantic Alignments for Generating Image Descriptions", CVPR
2015; its splits are those of VSE++, SCAN, HAL and L2RM. The caption is ``raw``; ``tokens`` is not
read. The authors' repositories keep the first 5 captions of the COCO images that have 6 or 7: that
is ``max_captions: 5``, while the default keeps all."""

from pathlib import Path

from pydantic.dataclasses import dataclass as checked

from vse_pipe.core.errors import InputError
from vse_pipe.prepare import source as sources
from vse_pipe.prepare.assembly import Assembly
from vse_pipe.prepare.captions import caption
from vse_pipe.prepare.formats.options import KarpathyOptions as Params


@checked(config=sources.STRICT, slots=True)
class _Sentence:
    raw: str | None
    sentid: sources.Id | None = None
    imgid: sources.Id | None = None


@checked(config=sources.STRICT, slots=True)
class _Entry:
    filename: str
    split: str
    sentences: list[_Sentence]
    filepath: str = ""
    imgid: sources.Id | None = None


@checked(config=sources.STRICT, slots=True)
class _Document:
    images: list[_Entry]


def read(source: Path, out: Path, params: Params, seed: int) -> sources.Source:
    """source: the json, or a folder with exactly one ``dataset_*.json``.

    image_id is ``imgid`` and caption_id ``sentid``, numbers or text; without them, running numbers.
    Raises InputError naming the entry for a field that is missing or of the wrong type, a repeated
    id or file name, an unknown split, a sentence of another image."""
    document = _find(sources.existing(source))
    entries = sources.parse(document, _Document).images
    if not any(entry.sentences for entry in entries):
        raise InputError(f"{document}: no image has a sentence")
    # Numbers that begin anew in each image are no ids.
    restarts = len(entries) > 1 and all(
        [sentence.sentid for sentence in entry.sentences] == list(range(len(entry.sentences))) for entry in entries
    )
    assembly = Assembly(document.parent / params.images)
    places: dict[str, str] = {}
    for position, entry in enumerate(entries):
        where = f"{document.name} images[{position}]"
        file = sources.file_name(f"{entry.filepath}/{entry.filename}" if entry.filepath else entry.filename)
        sources.refuse_repeated(places, file, "file", where)
        split = sources.split_of(entry.split, where)
        if entry.split == "restval" and not params.include_restval:
            continue
        split = params.drawn(file, seed) if split == "train" else split
        image = assembly.image(file, split, where, entry.imgid)
        for number, sentence in enumerate(entry.sentences[: params.max_captions]):
            place = f"{where}.sentences[{number}]"
            if entry.imgid is not None and sentence.imgid not in (None, entry.imgid):
                raise InputError(f"{place}: imgid {sentence.imgid}, but its image has imgid {entry.imgid}")
            caption_id = None if restarts else sentence.sentid
            assembly.caption(image, caption(sentence.raw, place), place, caption_id)
    return assembly.source()


def _find(source: Path) -> Path:
    if source.is_file():
        return source
    documents = sorted(source.glob("dataset_*.json"))
    if len(documents) != 1:
        raise InputError(f"{source}: expected one dataset_*.json, found {len(documents)}; name one in `source`")
    return documents[0]
