"""``Annotations/<id>.xml``: the boxes of a picture's chains, in the layout of PASCAL VOC."""

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from vse_pipe.core import memory
from vse_pipe.core.errors import InputError

# What a byte of XML takes at most as elements, and in expat, measured: where each stands in the one before.
_OF_XML = 100
_NUMBER = re.compile(r"\s*(-?[0-9]{1,9})\s*")
_CHAIN = re.compile(r"\s*([0-9]{1,18})\s*")
_FLAGS = ("scene", "nobndbox")

# x1, y1, x2, y2
Box = tuple[int, ...]


@dataclass
class Annotation:
    """width, height: pixels; boxes: of each chain the one that encloses all of its boxes, pixels from 0, inside of the picture;
    flags: ``scene`` or ``nobndbox`` of chains that were left without; clipped: boxes that reached over an edge."""

    width: int
    height: int
    boxes: dict[int, Box] = field(default_factory=dict)
    flags: dict[int, str] = field(default_factory=dict)
    clipped: int = 0


class _Plain(ET.TreeBuilder):
    """Stops at a document type, before what is in it is read: entities, which may expand without end or name other files."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> NoReturn:
        raise InputError("declares a document type; remove it, with any entities")


def read(path: Path) -> Annotation:
    """Raises InputError: no XML, a document type in it, more than memory may hold, a number that is missing or none, a box that
    ends before it begins or of which nothing lies in the picture."""
    memory.require(str(path), path.stat().st_size * _OF_XML)
    parser = ET.XMLParser(target=_Plain())  # noqa: S314 (it refuses document types)
    try:
        parser.feed(path.read_bytes())
        root = parser.close()
        size = root.find("size")
        if size is None:
            raise InputError("has no size")
        found = Annotation(_number(size, "width"), _number(size, "height"))
        for element in root.iterfind("object"):
            _add(found, element)
    # ValueError and LookupError: encodings that expat or Python does not have.
    except (ET.ParseError, ValueError, LookupError) as error:
        raise InputError(f"{path}: no XML that can be read ({error}); copy it again") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return found


def turned(box: Box, orientation: int, size: tuple[int, int]) -> Box:
    """The box where it is once the picture of ``size``, on which it was drawn, is upright. orientation: of EXIF, 1 to 8."""
    (x1, y1, x2, y2), (width, height) = box, size
    if orientation in (2, 3, 7, 8):
        x1, x2 = width - 1 - x2, width - 1 - x1
    if orientation in (3, 4, 6, 7):
        y1, y2 = height - 1 - y2, height - 1 - y1
    return (y1, x1, y2, x2) if orientation >= 5 else (x1, y1, x2, y2)


def _add(found: Annotation, element: ET.Element) -> None:
    chains = [_whole(_CHAIN, name.text, "name") for name in element.iterfind("name")]
    outline = element.find("bndbox")
    if outline is None:
        flags = [flag for flag in _FLAGS if element.find(flag) is not None and _number(element, flag) > 0]
        found.flags.update(dict.fromkeys(chains, flags[0]) if flags else {})
        return
    whole = tuple(_number(outline, edge) - 1 for edge in ("xmin", "ymin", "xmax", "ymax"))
    box = max(whole[0], 0), max(whole[1], 0), min(whole[2], found.width - 1), min(whole[3], found.height - 1)
    if box[2] < box[0] or box[3] < box[1]:
        told = ", ".join(str(edge + 1) for edge in whole)
        raise InputError(
            f"the box {told} of chain {', '.join(map(str, chains))} ends before it begins, or lies outside of the picture, "
            f"which has {found.width} x {found.height} pixels"
        )
    found.clipped += box != whole
    for chain in chains:
        other = found.boxes.get(chain, box)
        found.boxes[chain] = (*map(min, other[:2], box[:2]), *map(max, other[2:], box[2:]))


def _number(element: ET.Element, tag: str) -> int:
    return _whole(_NUMBER, element.findtext(tag), tag)


def _whole(form: re.Pattern[str], text: str | None, tag: str) -> int:
    found = form.fullmatch(text or "")
    if found is None:
        raise InputError(f"{tag} {(text or '')[:40]!r} is not a whole number")
    return int(found[1])
