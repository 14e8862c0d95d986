"""Addresses in images.parquet: a file, a member of a tar shard, or a cell of a Parquet file, or a
box in one of these.

    photos/beach.jpg
    train-0001.tar::1536:48211::000000012.jpg      offset and bytes of the member's data, then its name
    train-00000.parquet::17::image                 row of the file, counted from 0, then the column
    photos/beach.jpg#xywh=30,12,200,90             left, top, width and height in pixels of the upright picture

The last is a media fragment of the W3C, and may follow any of the others. The name of a member is
for messages only: no file of that name is written or opened.
"""

import re
import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.core import files
from vse_pipe.core.errors import InputError
from vse_pipe.core.tables import Parquet

_MEMBER = re.compile(r"(.+?\.tar)::(\d{1,18}):(\d{1,18})::(.+)", re.DOTALL)
_CELL = re.compile(r"(.+?\.parquet)::(\d{1,18})::(.+)", re.DOTALL)
_BOXED = re.compile(r"(.+)#xywh=([0-9]{1,18}),([0-9]{1,18}),([0-9]{1,18}),([0-9]{1,18})", re.DOTALL)


class Box(NamedTuple):
    """Whole pixels of the upright picture, counted from 0."""

    left: int
    top: int
    width: int
    height: int

    def address(self, file: str) -> str:
        """The address of this box in the picture ``file``."""
        return f"{file}#xywh={self.left},{self.top},{self.width},{self.height}"


@dataclass(frozen=True)
class TarMember:
    """file: the shard; offset, size: bytes, of the member's data in it."""

    file: str
    offset: int
    size: int
    name: str

    def __str__(self) -> str:
        return f"{self.file}::{self.offset}:{self.size}::{self.name}"


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
    place = parse(file)
    return place if isinstance(place, str) else place.file


def cut(file: str) -> tuple[str, Box | None]:
    """The address of the picture, and the box in it that ``file`` names; None: all of it."""
    match = _BOXED.fullmatch(file)
    return (match[1], Box(*map(int, match.groups()[1:]))) if match else (file, None)


def is_path(file: str) -> bool:
    """Whether the address is just the name of a file."""
    return cut(file)[1] is None and path_of(file) == file


def parse(file: str) -> str | TarMember | Cell:
    """The place of the picture of an address; a string is a path."""
    file, _ = cut(file)
    if match := _MEMBER.fullmatch(file):
        return TarMember(match[1], int(match[2]), int(match[3]), match[4])
    if match := _CELL.fullmatch(file):
        return Cell(match[1], int(match[2]), match[3])
    return file


# Threads share what one of them reads.
_reading = threading.Lock()


def value(path: Path, row: int, column: str) -> bytes | None:
    """The bytes in ``column`` of one row, None where there are none; rows in order cost one pass
    over the file. Raises IndexError when there is no such row or column, InputError when the file
    is no Parquet file, is damaged, or a row group takes too much memory."""
    stamp = None if files.is_remote(path) else path.stat()  # a request for every row would take longer than the row
    with _reading:
        file, starts = _opened(path.absolute() if stamp else path, stamp and (stamp.st_mtime_ns, stamp.st_size))
        if row >= starts[-1]:
            raise IndexError(f"has {starts[-1]} rows, no row {row}")
        if column not in file.schema.names:
            raise IndexError(f"has no column '{column}'")
        group = int(np.searchsorted(starts, row, side="right")) - 1
        return _cells(file, group, column)[row - int(starts[group])].as_py()


@lru_cache(maxsize=4)
def _opened(path: Path, stamp: tuple[int, int] | None) -> tuple[Parquet, np.ndarray]:
    """The file as long as it does not change, first rows of row groups, its rows."""
    file = Parquet(path, InputError)
    counts = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    return file, np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


@lru_cache(maxsize=2)
def _cells(file: Parquet, group: int, column: str) -> pa.ChunkedArray:
    """The bytes of a row group."""
    in_struct = pa.types.is_struct(file.schema.field(column).type)
    table = file.read([f"{column}.bytes" if in_struct else column], [group])
    with file.named():
        cells = pc.struct_field(table[column], "bytes") if in_struct else table[column]
        return cells.cast(pa.large_binary())
