"""Captions, the phrases in them, and the boxes of these."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from vse_pipe.core import memory, text_ids
from vse_pipe.core.console import say, track
from vse_pipe.core.errors import InputError, MissingResource
from vse_pipe.pictures.images import upright
from vse_pipe.prepare.engine.scan import scan
from vse_pipe.prepare.engine.source import (
    Source,
    Unique,
    caption_table,
    caption_text,
    existing,
    image_table,
    phrase_table,
    read_lines,
)
from vse_pipe.prepare.formats.entities import SPLITS, Params, annotations
from vse_pipe.prepare.formats.entities.annotations import Annotation
from vse_pipe.prepare.formats.entities.sentences import Phrase, parse

# Bytes of a phrase's row, beside its words.
_OF_PHRASE = 600


@dataclass
class _Rows:
    """without: picture and chain of each phrase without a box, by the reason; clipped: boxes; turned: pictures."""

    captions: list[tuple] = field(default_factory=list)
    phrases: list[tuple] = field(default_factory=list)
    without: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    clipped: int = 0
    turned: int = 0

    def add(self, path: Path, image_id: int, split: str, annotation: Annotation) -> None:
        """path: of the picture's sentences."""
        before = len(self.captions)
        self.clipped += annotation.clipped
        for number, line in enumerate(read_lines(path), 1):
            if not line.strip():
                continue
            where = f"{path} line {number}"
            text, phrases = parse(line, where)
            caption_id = len(self.captions)
            self.captions.append((caption_id, image_id, caption_text(text, where), split))
            for phrase in phrases:
                memory.take(where, _OF_PHRASE)
                if reason := _without_box(phrase, annotation):
                    self.without[reason].append((image_id, phrase.chain))
                    continue
                row = len(self.phrases), caption_id, image_id, phrase.chain, phrase.start, phrase.text, phrase.kind
                self.phrases.append((*row, *annotation.boxes[phrase.chain], split))
        if len(self.captions) == before:
            raise InputError(f"{path}: holds no captions")

    def turn(self, turns: dict[int, tuple[int, tuple[int, int]]]) -> None:
        """turns: orientation and size, as of ``annotations.turned``, of pictures whose boxes are turned with them."""
        self.turned = len(turns)
        for place, row in enumerate(self.phrases):
            if (image_id := row[2]) in turns:
                self.phrases[place] = (*row[:7], *annotations.turned(row[7:11], *turns[image_id]), *row[11:])


def read(source: Path, out: Path, params: Params, seed: int) -> Source:
    """source: the folder of ``Sentences``, ``Annotations`` and the files of splits, whose pictures alone are read.

    image_id is the picture's id, caption_id and phrase_id are running numbers. Lines without a caption are passed over, as by
    the authors' interface. A phrase whose chain has no box gets no row, and a box that reaches over an edge of its picture is
    cut there: how many is said. Of a picture that EXIF turns the boxes are turned too, if it is the stored one that has the
    annotations' size. Raises InputError and MissingResource: what ``parse`` and ``annotations.read`` refuse, a picture
    that is listed twice, without its files or of another size than its annotations say, an empty caption, no phrase with a box.
    """
    listed = list(_listed(existing(source)))
    rows, sizes = _Rows(), []
    for where, image_id, split in track(iter(listed), len(listed), "reading annotations"):
        texts, boxes = (_file(source, part, image_id, where) for part in ("Sentences/{}.txt", "Annotations/{}.xml"))
        annotation = annotations.read(boxes)
        rows.add(texts, image_id, split, annotation)
        sizes.append((annotation.width, annotation.height))
    files = [f"{image_id}.jpg" for _, image_id, _ in listed]
    scanned = scan(source / params.images, files, lambda number: listed[number][0])
    ids, splits = ([one[column] for one in listed] for column in (1, 2))
    shapes = zip(scanned.widths, scanned.heights, strict=True)
    turns = {
        image_id: (orientation, size)
        for (_, image_id, _), file, size, orientation, shown in zip(
            listed, files, sizes, scanned.orientations, shapes, strict=True
        )
        if any(shown) and _turns(source / params.images / file, size, shown, orientation)
    }
    rows.turn(turns)
    images = image_table(ids, files, splits, scanned.widths, scanned.heights, scanned.digests)
    phrases = phrase_table(rows.phrases, str(source))
    _say(source, rows)
    captions = caption_table(*zip(*rows.captions, strict=True))
    return Source(images, captions, str(source / params.images), scanned.broken, phrases)


def _turns(path: Path, size: tuple[int, int], shown: tuple[int, int], orientation: int) -> bool:
    """Whether the boxes were drawn on the picture as it is stored, and it is shown turned. size: that of its annotations."""
    if orientation != 1 and size == shown == upright(shown, orientation):
        raise InputError(
            f"{path}: shown turned, by its EXIF orientation {orientation}, and its size does not tell whether its boxes were "
            "drawn before or after that; write its pixels as its boxes fit them, without the orientation"
        )
    if size not in (shown, upright(shown, orientation)):
        raise InputError(
            f"{path}: {shown[0]} x {shown[1]} pixels, but its annotations are of {size[0]} x {size[1]}; "
            "use the pictures that the boxes were drawn on"
        )
    return size != shown


def _listed(source: Path) -> Iterator[tuple[str, int, str]]:
    """Where each picture is listed, its id and its split."""
    ids = Unique("picture")
    for split in SPLITS:
        path = source / f"{split}.txt"
        for number, line in enumerate(read_lines(path), 1):
            where, name = f"{path} line {number}", line.strip()
            if not text_ids.are_numbers(pa.array([name])):
                raise InputError(f"{where}: {name[:40]!r} is no picture's id; expected a number")
            yield where, ids.add(int(name), where), split


def _file(source: Path, part: str, image_id: int, where: str) -> Path:
    path = source / part.format(image_id)
    if not path.is_file():
        raise MissingResource(f"{where}: picture {image_id} has no {path}; put it there or remove the line")
    return path


def _without_box(phrase: Phrase, annotation: Annotation) -> str:
    """Why, or nothing where it has one. Chain 0 is that of all phrases that show nothing."""
    if phrase.chain == 0 or "notvisual" in phrase.kind.split("/"):
        return "that name nothing visible"
    if not phrase.text:
        return "without words"
    if phrase.chain in annotation.boxes:
        return ""
    flag = annotation.flags.get(phrase.chain)
    return f"marked {flag}" if flag else "without annotation"


def _say(source: Path, rows: _Rows) -> None:
    counts = [f"{len(found)} {reason} ({len(set(found))} chains)" for reason, found in sorted(rows.without.items())]
    left = f"; left out: {', '.join(counts)}" if counts else ""
    cut = f"; {rows.clipped} boxes reached over an edge of their picture and were cut there" if rows.clipped else ""
    turn = (
        f"; in {rows.turned} pictures, shown turned by their EXIF orientation, boxes were turned too"
        if rows.turned
        else ""
    )
    say(f"{source}: {len(rows.phrases)} phrases have a box{left}{cut}{turn}")
