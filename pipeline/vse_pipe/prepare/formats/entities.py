"""Flickr30k Entities: ``Sentences/<id>.txt``, ``Annotations/<id>.xml``, ids in ``train.txt``,
``val.txt``, ``test.txt``

Plummer et al., "Flickr30k Entities: Collecting Region-to-Phrase Correspondences for Richer
Image-to-Sentence Models", ICCV 2015. A phrase with several boxes gets the enclosing box, as in the
authors' pl-clc (``Entity.getGTBox``). Coordinates count from 0, 1 less than in the files, as in
their Python interface."""

import re
import xml.etree.ElementTree as ET
from collections import Counter
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

# Bytes of the row of a phrase, beside its words.
_PHRASE_BYTES = 600
# Bytes that a byte of XML takes at most as elements and in expat; measured with deeply nested
# elements.
_BYTES_OF_XML = 100
_NUMBER = re.compile(r"\s*(-?[0-9]{1,9})\s*")
_ID = re.compile(r"\s*([0-9]{1,18})\s*")
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

    def objection(self, phrase: "Phrase") -> str:
        """Why a phrase has no box, or "". All phrases that name nothing visible have chain 0."""
        if phrase.chain == 0 or "notvisual" in phrase.kind.split("/"):
            return "that name nothing visible"
        if not phrase.text:
            return "without words"
        return "" if phrase.chain in self.boxes else "whose chain has no box"


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
    Lines without a caption are skipped, as by the authors' interface. A phrase whose chain has no
    box gets no row, and boxes are cut at the edges of the picture; both are counted in the log.
    Boxes are those of the upright picture. Raises InputError and MissingResource as ``parse`` and
    ``read_annotation``, and for a picture that is listed twice, lacks files or differs in size from
    its annotations, and without any phrase with a box."""
    listed = list(_listed(sources.existing(source)))
    assembly, rows, sizes = Assembly(source / params.images), list[tuple](), list[tuple[int, int]]()
    left_out, clipped, caption_id = Counter[str](), 0, 0
    for where, name, split in track(iter(listed), len(listed), "reading annotations"):
        texts, boxes = (_file(source, part, name, where) for part in ("Sentences/{}.txt", "Annotations/{}.xml"))
        annotation, image_id = read_annotation(boxes), int(name)
        clipped += annotation.clipped
        sizes.append(annotation.size)
        image = assembly.image(f"{name}.jpg", split, where, image_id)
        for number, line in enumerate(sources.read_lines(texts), 1):
            if not line.strip():
                continue
            place = f"{texts} line {number}"
            text, phrases = parse(line, place)
            assembly.caption(image, caption(text, place))
            for phrase in phrases:
                memory.reserve(place, _PHRASE_BYTES)
                if reason := annotation.objection(phrase):
                    left_out[reason] += 1
                    continue
                words = phrase.chain, phrase.start, phrase.text, phrase.kind
                rows.append((len(rows), caption_id, image_id, *words, *annotation.boxes[phrase.chain], split))
            caption_id += 1
    data = assembly.source()
    _require_sizes(data, sizes)
    notes = [f"{count} {reason}" for reason, count in sorted(left_out.items())]
    cut = f"; {clipped} boxes reached over an edge of their picture and were cut there" if clipped else ""
    say(f"{source}: {len(rows)} phrases have a box; left out: {', '.join(notes) or 'none'}{cut}")
    return replace(data, phrases=sources.phrase_table(rows, str(source)))


def _require_sizes(data: sources.Source, sizes: list[tuple[int, int]]) -> None:
    """Raise InputError for a picture whose upright size is not that of its annotations."""
    columns = (data.images[name].to_pylist() for name in ("file", "width", "height"))
    for file, width, height, size in zip(*columns, sizes, strict=True):
        if width and (width, height) != size:
            raise InputError(
                f"{data.root}/{file}: {width} x {height} pixels upright, but its annotations are of {size[0]} x {size[1]}; "
                "use the pictures that the boxes were drawn on, turned as their EXIF says"
            )


def _listed(source: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the place in the list, the written id, such as 000000000139, and the split."""
    places: dict[str, str] = {}
    for split in ("train", "val", "test"):
        path = source / f"{split}.txt"
        for number, line in enumerate(sources.read_lines(path), 1):
            where, name = f"{path} line {number}", line.strip().removesuffix(".jpg")
            if name and not _ID.fullmatch(name):
                raise InputError(f"{where}: {name[:40]!r} is no picture's id; expected a number")
            if name:
                sources.refuse_repeated(places, str(int(name)), "picture", where)
                yield where, name, split


def _file(source: Path, part: str, name: str, where: str) -> Path:
    path = source / part.format(name)
    if not path.is_file():
        raise MissingResource(f"{where}: picture {name} has no {path}; put it there or remove the line")
    return path


def read_annotation(path: Path) -> Annotation:
    """The annotation of a picture. Raises InputError for a file that is no XML or needs too much
    memory, for a missing or malformed number, and for a box that ends before it begins or lies
    outside the picture."""
    memory.require(str(path), path.stat().st_size * _BYTES_OF_XML)
    try:
        root = ET.fromstring(path.read_bytes())  # noqa: S314 (expat opens no other file and limits entities)
        size = root.find("size")
        if size is None:
            raise InputError("has no size")
        annotation = Annotation((_number(size, "width"), _number(size, "height")))
        for element in root.iterfind("object"):
            _add(annotation, element)
    # ValueError and LookupError: encodings that expat or Python does not support.
    except (ET.ParseError, ValueError, LookupError) as error:
        raise InputError(f"{path}: no XML that can be read ({error}); copy it again") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return annotation


def _add(annotation: Annotation, element: ET.Element) -> None:
    chains = [_whole_number(_ID, name.text, "name") for name in element.iterfind("name")]
    outline = element.find("bndbox")
    if outline is None:
        return
    edges = tuple(_number(outline, edge) - 1 for edge in ("xmin", "ymin", "xmax", "ymax"))
    width, height = annotation.size
    box = max(edges[0], 0), max(edges[1], 0), min(edges[2], width - 1), min(edges[3], height - 1)
    if box[2] < box[0] or box[3] < box[1]:
        values = ", ".join(str(edge + 1) for edge in edges)
        raise InputError(
            f"the box {values} of chain {', '.join(map(str, chains))} ends before it begins, or lies outside of the "
            f"picture of {width} x {height} pixels"
        )
    annotation.clipped += box != edges
    for chain in chains:
        previous = annotation.boxes.get(chain, box)
        annotation.boxes[chain] = (*map(min, previous[:2], box[:2]), *map(max, previous[2:], box[2:]))


def _number(element: ET.Element, tag: str) -> int:
    return _whole_number(_NUMBER, element.findtext(tag), tag)


def _whole_number(form: re.Pattern[str], text: str | None, tag: str) -> int:
    match = form.fullmatch(text or "")
    if match is None:
        raise InputError(f"{tag} {(text or '')[:40]!r} is not a whole number")
    return int(match[1])


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
