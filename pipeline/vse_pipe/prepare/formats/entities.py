"""Flickr30k Entities: ``Sentences/<id>.txt``, ``Annotations/<id>.xml``, ids in ``train.txt``, ``val.txt``, ``test.txt``

Plummer et al., "Flickr30k Entities: Collecting Region-to-Phrase Correspondences for Richer Image-to-Sentence Models",
ICCV 2015. A phrase with several boxes gets the enclosing box, as in the authors' pl-clc (``Entity.getGTBox``).
Coordinates count from 0, 1 less than in the files, as in their Python interface."""

import re
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from vse_pipe.core import memory
from vse_pipe.core.console import say, track
from vse_pipe.core.errors import InputError, MissingResource
from vse_pipe.pictures.images import turned, upright
from vse_pipe.prepare import source as sources
from vse_pipe.prepare.assembly import Assembly
from vse_pipe.prepare.captions import caption
from vse_pipe.prepare.formats.options import SPLITS, listed_id
from vse_pipe.prepare.formats.options import EntitiesOptions as Params

# Bytes of the row of a phrase, beside its words.
_PHRASE_BYTES = 600
# Bytes that a byte of XML takes at most as elements and in expat; measured with deeply nested elements.
_BYTES_OF_XML = 100
_NUMBER = re.compile(r"\s*(-?[0-9]{1,9})\s*")
_ID = re.compile(r"[0-9]{1,18}")
_CHAIN = re.compile(r"\s*([0-9]{1,18})\s*")
_FLAGS = ("scene", "nobndbox")
# x1, y1, x2, y2
Box = tuple[int, ...]
_PHRASE = re.compile(r"\[/EN#([0-9]{1,18})((?:/[^\s/\[\]]+)+)\s([^\[\]]*)\]")
_LEFT_OVER = re.compile(r"\[|/EN#")


@dataclass
class Annotation:
    """width, height: pixels; boxes: of each chain the enclosing box, pixels from 0, inside the picture; flags:
    ``scene`` or ``nobndbox`` of chains without a box; clipped: the number of boxes that reached over an edge."""

    width: int
    height: int
    boxes: dict[int, Box] = field(default_factory=dict)
    flags: dict[int, str] = field(default_factory=dict)
    clipped: int = 0


class Phrase(NamedTuple):
    """start: place of ``text`` in the caption, in characters from 0; kind: types, joined by /."""

    start: int
    text: str
    chain: int
    kind: str


@dataclass
class _Phrases:
    """rows: of phrases.parquet; without: picture and chain of each phrase without a box, by reason; clipped: boxes;
    turned: pictures."""

    rows: list[tuple] = field(default_factory=list)
    without: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    captions: int = 0
    clipped: int = 0
    turned: int = 0

    def add(self, phrases: list[Phrase], image_id: int, split: str, annotation: Annotation, where: str) -> None:
        """Add the phrases of the next caption."""
        for phrase in phrases:
            memory.reserve(where, _PHRASE_BYTES)
            if reason := _without_box(phrase, annotation):
                self.without[reason].append((image_id, phrase.chain))
                continue
            row = len(self.rows), self.captions, image_id, phrase.chain, phrase.start, phrase.text, phrase.kind
            self.rows.append((*row, *annotation.boxes[phrase.chain], split))
        self.captions += 1

    def turn(self, turns: dict[int, tuple[int, tuple[int, int]]]) -> None:
        """Turn the boxes of pictures. turns: orientation and size, as of ``turned``, by image_id."""
        self.turned = len(turns)
        for place, row in enumerate(self.rows):
            if (image_id := row[2]) in turns:
                self.rows[place] = (*row[:7], *turned(row[7:11], *turns[image_id]), *row[11:])


def read(source: Path, out: Path, params: Params, seed: int) -> sources.Source:
    """source: the folder of ``Sentences``, ``Annotations`` and the lists of splits; only listed pictures are read.

    image_id is the id of the picture as a number; caption_id and phrase_id are running numbers. Lines without a caption
    are skipped, as by the authors' interface. A phrase whose chain has no box gets no row, and boxes are cut at the edges
    of the picture; both are counted in the log. When EXIF turns a picture and its annotations have the stored size, the
    boxes are turned too. Raises InputError and MissingResource as ``parse`` and ``read_annotation``, and for a picture
    that is listed twice, lacks files or differs in size from its annotations, and without any phrase with a box."""
    listed = list(_listed(sources.existing(source)))
    sources.refuse_repeated([int(name) for _, name, _ in listed], "picture", lambda place: listed[place][0])
    root, phrases, sizes = source / params.images, _Phrases(), list[tuple[int, int]]()
    assembly = Assembly(root, out)
    for where, name, split in track(iter(listed), len(listed), "reading annotations"):
        texts, boxes = (_file(source, part, name, where) for part in ("Sentences/{}.txt", "Annotations/{}.xml"))
        annotation = read_annotation(boxes)
        phrases.clipped += annotation.clipped
        sizes.append((annotation.width, annotation.height))
        image = assembly.image(f"{name}.jpg", split, where, int(name))
        for number, line in enumerate(sources.read_lines(texts), 1):
            if line.strip():
                place = f"{texts} line {number}"
                text, marked = parse(line, place)
                assembly.caption(image, caption(text, place), split)
                phrases.add(marked, int(name), split, annotation, place)
    data = assembly.source()
    upright_sizes = zip(data.images["width"].to_pylist(), data.images["height"].to_pylist(), strict=True)
    phrases.turn(
        {
            int(name): (orientation, size)
            for (_, name, _), size, orientation, upright_size in zip(
                listed, sizes, assembly.orientations, upright_sizes, strict=True
            )
            if any(upright_size) and _turns(root / f"{name}.jpg", size, upright_size, orientation)
        }
    )
    _say(source, phrases)
    return replace(data, phrases=sources.phrase_table(phrases.rows, str(source)))


def _turns(path: Path, size: tuple[int, int], upright_size: tuple[int, int], orientation: int) -> bool:
    """Return whether the boxes fit the stored picture, which EXIF turns. size: of the annotations."""
    if orientation != 1 and size == upright_size == upright(upright_size, orientation):
        raise InputError(
            f"{path}: shown turned, by its EXIF orientation {orientation}, and its size does not tell whether its boxes were "
            "drawn before or after that; write its pixels as its boxes fit them, without the orientation"
        )
    if size not in (upright_size, upright(upright_size, orientation)):
        raise InputError(
            f"{path}: {upright_size[0]} x {upright_size[1]} pixels, but its annotations are of {size[0]} x {size[1]}; use the pictures that the boxes were drawn on"
        )
    return size != upright_size


def _listed(source: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the place in its list, the id as it is written, such as 000000000139, and the split of each picture."""
    for split in SPLITS:
        path = source / f"{split}.txt"
        for number, line in enumerate(sources.read_lines(path), 1):
            where, name = f"{path} line {number}", listed_id(line)
            if name and not _ID.fullmatch(name):
                raise InputError(f"{where}: {name[:40]!r} is no picture's id; expected a number")
            if name:
                yield where, name, split


def _file(source: Path, part: str, name: str, where: str) -> Path:
    path = source / part.format(name)
    if not path.is_file():
        raise MissingResource(f"{where}: picture {name} has no {path}; put it there or remove the line")
    return path


def _without_box(phrase: Phrase, annotation: Annotation) -> str:
    """The reason why a phrase has no box, or "". All phrases that name nothing visible have chain 0."""
    if phrase.chain == 0 or "notvisual" in phrase.kind.split("/"):
        return "that name nothing visible"
    if not phrase.text:
        return "without words"
    if phrase.chain in annotation.boxes:
        return ""
    flag = annotation.flags.get(phrase.chain)
    return f"marked {flag}" if flag else "without annotation"


def _say(source: Path, rows: _Phrases) -> None:
    counts = [f"{len(chains)} {reason} ({len(set(chains))} chains)" for reason, chains in sorted(rows.without.items())]
    left = f"; left out: {', '.join(counts)}" if counts else ""
    cut = f"; {rows.clipped} boxes reached over an edge of their picture and were cut there" if rows.clipped else ""
    turn = (
        f"; in {rows.turned} pictures, shown turned by their EXIF orientation, boxes were turned too"
        if rows.turned
        else ""
    )
    say(f"{source}: {len(rows.rows)} phrases have a box{left}{cut}{turn}")


def read_annotation(path: Path) -> Annotation:
    """The annotation of a picture. Raises InputError for a file that is no XML or needs too much memory, for a missing
    or malformed number, and for a box that ends before it begins or lies outside the picture."""
    memory.require(str(path), path.stat().st_size * _BYTES_OF_XML)
    try:
        root = ET.fromstring(path.read_bytes())  # noqa: S314 (expat opens no other file and limits entities)
        size = root.find("size")
        if size is None:
            raise InputError("has no size")
        annotation = Annotation(_number(size, "width"), _number(size, "height"))
        for element in root.iterfind("object"):
            _add(annotation, element)
    # ValueError and LookupError: encodings that expat or Python does not support.
    except (ET.ParseError, ValueError, LookupError) as error:
        raise InputError(f"{path}: no XML that can be read ({error}); copy it again") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return annotation


def _add(annotation: Annotation, element: ET.Element) -> None:
    chains = [_whole_number(_CHAIN, name.text, "name") for name in element.iterfind("name")]
    outline = element.find("bndbox")
    if outline is None:
        flags = [flag for flag in _FLAGS if element.find(flag) is not None and _number(element, flag) > 0]
        annotation.flags.update(dict.fromkeys(chains, flags[0]) if flags else {})
        return
    edges = tuple(_number(outline, edge) - 1 for edge in ("xmin", "ymin", "xmax", "ymax"))
    box = max(edges[0], 0), max(edges[1], 0), min(edges[2], annotation.width - 1), min(edges[3], annotation.height - 1)
    if box[2] < box[0] or box[3] < box[1]:
        values = ", ".join(str(edge + 1) for edge in edges)
        raise InputError(
            f"the box {values} of chain {', '.join(map(str, chains))} ends before it begins, or lies outside of the picture, "
            f"which has {annotation.width} x {annotation.height} pixels"
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

    Raises InputError for a mark that is not closed, is inside another mark, or lacks its chain or type."""
    # In turn the text before a phrase, its chain, types and words; at the end the rest.
    pieces = _PHRASE.split(line)
    text, phrases = "", []
    for before, chain, kinds, words in zip(pieces[::4], pieces[1::4], pieces[2::4], pieces[3::4], strict=False):
        text += _plain(before, where)
        start = len(text) + len(words) - len(words.lstrip())
        phrases.append(Phrase(start, words.strip(), int(chain), kinds.removeprefix("/")))
        text += words
    return text + _plain(pieces[-1], where), phrases


def _plain(piece: str, where: str) -> str:
    match = _LEFT_OVER.search(piece)
    if match:
        mark = piece[match.start() :][:40]
        raise InputError(
            f"{where}: {mark!r} is no whole mark; expected [/EN#<chain>/<type> words], no bracket among the words"
        )
    return piece
