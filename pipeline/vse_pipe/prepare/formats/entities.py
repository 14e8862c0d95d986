"""Flickr30k Entities: ``Sentences/<id>.txt``, ``Annotations/<id>.xml``, ids in ``train.txt``,
``val.txt``, ``test.txt``

Plummer et al., "Flickr30k Entities: Collecting Region-to-Phrase Correspondences for Richer
Image-to-Sentence Models", ICCV 2015. A phrase with several boxes gets the enclosing box, as in the
authors' pl-clc (``Entity.getGTBox``). Coordinates count from 0, 1 less than in the files, as in
their Python interface."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from vse_pipe.core import memory
from vse_pipe.core.console import say, track
from vse_pipe.core.errors import InputError, MissingResource
from vse_pipe.prepare import source as sources
from vse_pipe.prepare.assembly import Assembly
from vse_pipe.prepare.captions import caption
from vse_pipe.prepare.formats.options import EntitiesOptions as Params

# Bytes that a byte of XML takes at most as elements and in expat; measured with deeply nested
# elements.
_BYTES_OF_XML = 100
_NUMBER = re.compile(r"\s*-?[0-9]{1,18}\s*")
# x1, y1, x2, y2
Box = tuple[int, ...]
_PHRASE = re.compile(r"\[/EN#([0-9]{1,18})((?:/[^\s/\[\]]+)+)\s([^\[\]]*)\]")
_LEFT_OVER = re.compile(r"\[|/EN#")


@dataclass
class Annotation:
    """size: width and height in pixels; boxes: of each chain the enclosing box, pixels from 0,
    inside the picture; clipped: the number of boxes that reached over an edge."""

    size: tuple[int, int]
    boxes: dict[int, Box] = field(default_factory=dict)
    clipped: int = 0


class Phrase(NamedTuple):
    """start: place of ``text`` in the caption, in characters from 0; kind: types, joined by /."""

    start: int
    text: str
    chain: int
    kind: str


def read(source: Path, out: Path, params: Params, seed: int) -> sources.Source:
    """source: the folder of ``Sentences``, ``Annotations`` and the lists of splits; only listed
    pictures are read.

    image_id is the id of the picture as a number; caption_id and phrase_id are running numbers.
    Lines without a caption are skipped, as by the authors' interface. A phrase gets no row when its
    chain has no box (or is 0, nothing visible) or when it has no words, and boxes are cut at the
    edges of the picture; both are counted in the log. Boxes are those of the upright picture.
    Raises InputError and MissingResource as ``parse`` and ``read_annotation``, and for a picture
    that is listed twice or differs in size from its annotations, and without any phrase with a
    box."""
    listed = list(_listed(sources.existing(source)))
    assembly, rows, sizes = Assembly(source / params.images), list[tuple](), list[tuple[int, int]]()
    left_out = clipped = caption_id = 0
    for where, name, split in track(iter(listed), len(listed), "reading annotations"):
        annotation, image_id = read_annotation(source / f"Annotations/{name}.xml"), int(name)
        clipped += annotation.clipped
        sizes.append(annotation.size)
        image = assembly.image(f"{name}.jpg", split, where, image_id)
        texts = source / f"Sentences/{name}.txt"
        for number, line in enumerate(sources.read_lines(texts), 1):
            if not line.strip():
                continue
            place = f"{texts} line {number}"
            text, phrases = parse(line, place)
            assembly.caption(image, caption(text, place))
            for start, words, chain, kind in phrases:
                if not words or chain not in annotation.boxes or "notvisual" in kind.split("/"):
                    left_out += 1
                    continue
                about = caption_id, image_id, chain, start, words, kind
                rows.append((len(rows), *about, *annotation.boxes[chain], split))
            caption_id += 1
    data = assembly.source()
    _require_sizes(data, sizes)
    cut = f"; {clipped} boxes reached over an edge of their picture and were cut there" if clipped else ""
    say(f"{source}: {len(rows)} phrases have a box; left out: {left_out}{cut}")
    return replace(data, phrases=sources.phrase_table(rows, str(source)))


def _require_sizes(data: sources.Source, sizes: list[tuple[int, int]]) -> None:
    """Raise InputError for a picture whose upright size is not that of its annotations."""
    columns = (data.images[name].to_pylist() for name in ("file", "width", "height"))
    for file, width, height, size in zip(*columns, sizes, strict=True):
        if width and (width, height) != size:
            raise InputError(
                f"{data.root}/{file}: {width} x {height} pixels upright, but its annotations are of "
                f"{size[0]} x {size[1]}; use the pictures that the boxes were drawn on"
            )


def _listed(source: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the place in the list, the written id, such as 000000000139, and the split."""
    places: dict[str, str] = {}
    for split in ("train", "val", "test"):
        path = source / f"{split}.txt"
        for number, line in enumerate(sources.read_lines(path), 1):
            where, name = f"{path} line {number}", line.strip().removesuffix(".jpg")
            if name and not (name.isdecimal() and len(name) < 19):
                raise InputError(f"{where}: {name[:40]!r} is no picture's id; expected a number of at most 18 digits")
            if name:
                sources.refuse_repeated(places, str(int(name)), "picture", where)
                yield where, name, split


def read_annotation(path: Path) -> Annotation:
    """The annotation of a picture. Raises MissingResource without the file; InputError for a file
    that is no XML or needs too much memory, for a missing or malformed number, and for a box that
    ends before it begins or lies outside the picture."""
    if not path.is_file():
        raise MissingResource(f"{path}: no such file")
    memory.require(str(path), path.stat().st_size * _BYTES_OF_XML)
    try:
        root = ET.fromstring(path.read_bytes())  # noqa: S314 (expat opens no other file and limits entities)
        annotation = Annotation((_number(root, "size/width"), _number(root, "size/height")))
        for element in root.iterfind("object"):
            _add(annotation, element)
    # ValueError and LookupError: numbers, and encodings that expat or Python does not support.
    except (ET.ParseError, ValueError, LookupError) as error:
        raise InputError(f"{path}: no annotation of a picture ({error})") from error
    return annotation


def _add(annotation: Annotation, element: ET.Element) -> None:
    if element.find("bndbox") is None:
        return
    edges = tuple(_number(element, f"bndbox/{edge}") - 1 for edge in ("xmin", "ymin", "xmax", "ymax"))
    width, height = annotation.size
    box = max(edges[0], 0), max(edges[1], 0), min(edges[2], width - 1), min(edges[3], height - 1)
    if box[2] < box[0] or box[3] < box[1]:
        values = ", ".join(str(edge + 1) for edge in edges)
        raise ValueError(f"the box {values} ends before it begins, or lies outside of {width} x {height} pixels")
    annotation.clipped += box != edges
    for name in element.iterfind("name"):
        chain = _whole_number(name.text, "name")
        previous = annotation.boxes.get(chain, box)
        annotation.boxes[chain] = (*map(min, previous[:2], box[:2]), *map(max, previous[2:], box[2:]))


def _number(element: ET.Element, path: str) -> int:
    return _whole_number(element.findtext(path), path)


def _whole_number(text: str | None, name: str) -> int:
    if not _NUMBER.fullmatch(text or ""):
        raise ValueError(f"{name} {(text or '')[:40]!r} is not a whole number")
    return int(text or "")


def parse(line: str, where: str) -> tuple[str, list[Phrase]]:
    """The caption without its marks, and its phrases; a phrase without words has an empty text.

    Raises InputError for a mark that is not closed, is inside another mark, or lacks its chain or
    type."""
    # In turn the text before a phrase, its chain, types and words; at the end the rest.
    pieces = _PHRASE.split(line)
    for piece in pieces[::4]:
        if match := _LEFT_OVER.search(piece):
            mark = piece[match.start() :][:40]
            raise InputError(
                f"{where}: {mark!r} is no whole mark; expected [/EN#<chain>/<type> words] without brackets"
            )
    text, phrases = "", []
    for before, chain, kinds, words in zip(pieces[::4], pieces[1::4], pieces[2::4], pieces[3::4], strict=False):
        text += before
        start = len(text) + len(words) - len(words.lstrip())
        phrases.append(Phrase(start, words.strip(), int(chain), kinds.removeprefix("/")))
        text += words
    return text + pieces[-1], phrases
