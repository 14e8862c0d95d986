"""How images.parquet names an image: a file, a member of a tar shard, or a cell of a Parquet file.

    photos/beach.jpg
    train-0001.tar::1536:48211::000000012.jpg      offset and bytes of the member's data, then its name
    train-00000.parquet::17::image                 row of the file, counted from 0, then the column

Names after ``::`` are for people and messages: nothing is ever written to, or opened by, the name of a member.
"""

import re
from dataclasses import dataclass

_MEMBER = re.compile(r"(.+?\.tar)::(\d{1,18}):(\d{1,18})::(.+)", re.DOTALL)
_CELL = re.compile(r"(.+?\.parquet)::(\d{1,18})::(.+)", re.DOTALL)


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
    return file


def parse(file: str) -> str | TarMember | Cell:
    """What the column ``file`` of images.parquet names; a string is a path."""
    if match := _MEMBER.fullmatch(file):
        return TarMember(match[1], int(match[2]), int(match[3]), match[4])
    if match := _CELL.fullmatch(file):
        return Cell(match[1], int(match[2]), match[3])
    return file
