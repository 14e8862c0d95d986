"""How images.parquet names an image: a file, a member of a tar shard, or a cell of a Parquet file; or a box in one.

    photos/beach.jpg
    train-0001.tar::1536:48211::000000012.jpg      offset and bytes of the member's data, then its name
    train-00000.parquet::17::image                 row of the file, counted from 0, then the column
    photos/beach.jpg#xywh=30,12,200,90             left, top, width and height in pixels of the upright picture

The last is a media fragment of the W3C, behind any of the others. Names after ``::`` are for people and messages: nothing
is ever written to, or opened by, the name of a member.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

_MEMBER = re.compile(r"(.+?\.tar)::(\d{1,18}):(\d{1,18})::(.+)", re.DOTALL)
_CELL = re.compile(r"(.+?\.parquet)::(\d{1,18})::(.+)", re.DOTALL)
_BOXED = re.compile(r"(.+)#xywh=([0-9]{1,18}),([0-9]{1,18}),([0-9]{1,18}),([0-9]{1,18})", re.DOTALL)


class Box(NamedTuple):
    """Whole pixels of the upright picture, counted from 0."""

    left: int
    top: int
    width: int
    height: int

    def of(self, file: str) -> str:
        """The address of this box in the picture ``file``."""
        return f"{file}#xywh={self.left},{self.top},{self.width},{self.height}"


@dataclass(frozen=True)
class TarMember:
    """offset, size: bytes, of the member's data in the shard."""

    shard: str
    offset: int
    size: int
    name: str

    def __str__(self) -> str:
        return f"{self.shard}::{self.offset}:{self.size}::{self.name}"


@dataclass(frozen=True)
class Cell:
    """column: of bytes, or of structs whose field ``bytes`` holds them."""

    file: str
    row: int
    column: str

    def __str__(self) -> str:
        return f"{self.file}::{self.row}::{self.column}"


def path_of(file: str) -> str:
    """The file to open for the image that ``file`` names, relative to the image root."""
    match parse(file):
        case TarMember() as member:
            return member.shard
        case Cell() as cell:
            return cell.file
        case str() as path:
            return path


def cut(file: str) -> tuple[str, Box | None]:
    """The address of the whole picture, and which box of it ``file`` names; None: all of it."""
    match = _BOXED.fullmatch(file)
    return (match[1], Box(*map(int, match.groups()[1:]))) if match else (file, None)


def is_path(file: str) -> bool:
    """Is a file of this name named by it, and nothing else?"""
    return ("::" not in file and "#" not in file) or (cut(file)[1] is None and path_of(file) == file)


def parse(file: str) -> str | TarMember | Cell:
    """Where the picture lies that ``file`` names or names a box of; a string is a path."""
    file, _ = cut(file)
    if match := _MEMBER.fullmatch(file):
        return TarMember(match[1], int(match[2]), int(match[3]), match[4])
    if match := _CELL.fullmatch(file):
        return Cell(match[1], int(match[2]), match[3])
    return file
