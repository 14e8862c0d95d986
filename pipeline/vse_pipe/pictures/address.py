"""Addresses in images.parquet: a file, a member of a tar shard, or a cell of a Parquet file, or a box in one of these.

    photos/beach.jpg
    train-0001.tar::1536:48211::000000012.jpg      offset and bytes of the member's data, then its name
    train-00000.parquet::17::image                 row of the file, counted from 0, then the column
    photos/beach.jpg#xywh=30,12,200,90             left, top, width and height in pixels of the upright picture

The last is a media fragment of the W3C, and may follow any of the others. The name of a member is for messages only: no
file of that name is written or opened.
"""

import re
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.core import files, memory
from vse_pipe.core.errors import Damage, InputError
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
    """The address of the picture, and the box in it that ``file`` names; None: all of it."""
    match = _BOXED.fullmatch(file)
    return (match[1], Box(*map(int, match.groups()[1:]))) if match else (file, None)


def is_path(file: str) -> bool:
    """Whether the address is just the name of a file."""
    return ("::" not in file and "#" not in file) or (cut(file)[1] is None and path_of(file) == file)


def parse(file: str) -> str | TarMember | Cell:
    """The place of the picture of an address; a string is a path."""
    file, _ = cut(file)
    if match := _MEMBER.fullmatch(file):
        return TarMember(match[1], int(match[2]), int(match[3]), match[4])
    if match := _CELL.fullmatch(file):
        return Cell(match[1], int(match[2]), match[3])
    return file


# Rows of Parquet files are read by row groups, and one or two groups stay in memory: rows in order cost one pass over
# the file, random rows read a group each. Largest size of a column in a row group, in bytes: it is read for a single
# picture.
LARGEST_GROUP = 2**30
_KEPT_GROUPS = 2
_KEPT_FILES = 4
# With lru_cache alone two threads could open the same file at once, and each would read its row groups.
_opening = threading.Lock()
# One cache for all files, by row group and column, so that its size does not grow with their number.
_cache: OrderedDict[tuple["CellFile", int, str], pa.ChunkedArray] = OrderedDict()
_keeping = threading.Lock()


def value(path: Path, row: int, column: str) -> bytes | None:
    """The bytes in ``column`` of one row, None where there are none. Raises IndexError when there is no such row or
    column, InputError when the file is no Parquet file, is damaged, or its row groups are too large to be read by row.
    """
    if files.is_remote(path):
        # Opened once in a process: a request for every row would take longer than the row.
        with _opening:
            return _far(path).value(row, column)
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    with _opening:
        file = open_cells(path.resolve(), status.st_mtime_ns, status.st_size)
    return file.value(row, column)


@lru_cache(maxsize=_KEPT_FILES)
def open_cells(path: Path, modified: int, size: int) -> "CellFile":
    """The file, opened once as long as it does not change."""
    return CellFile(path)


@lru_cache(maxsize=_KEPT_FILES)
def _far(path: Path) -> "CellFile":
    return CellFile(path)


class CellFile:
    """A Parquet file whose row groups are read at the first use of a row."""

    def __init__(self, path: Path) -> None:
        self._file = Parquet(path, Damage(InputError, "copy it again"), LARGEST_GROUP)
        metadata = self._file.metadata
        counts = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        self._refused: dict[tuple[int, str], str] = {}
        self._lock = threading.Lock()

    def value(self, row: int, column: str) -> bytes | None:
        if row >= self._starts[-1]:
            raise IndexError(f"has {self._starts[-1]} rows, no row {row}")
        if column not in self._file.schema.names:
            raise IndexError(f"has no column '{column}'")
        group = int(np.searchsorted(self._starts, row, side="right")) - 1
        # Other threads wait while a group is read.
        with self._lock:
            cells = self._group(group, column)
        return cells[row - int(self._starts[group])].as_py()

    def _group(self, group: int, column: str) -> pa.ChunkedArray:
        key = self, group, column
        with _keeping:
            if key in _cache:
                _cache.move_to_end(key)
                return _cache[key]
        if (group, column) in self._refused:
            raise InputError(self._refused[group, column])
        try:
            cells = self._read(group, column)
        except InputError as error:  # not to be read again for each of its rows
            self._refused[group, column] = str(error)
            raise
        with _keeping:
            _cache[key] = cells
            for old in [other for other in _cache if other[0] is self][:-_KEPT_GROUPS]:
                del _cache[old]
            most = min(_KEPT_GROUPS * LARGEST_GROUP, memory.available())
            while len(_cache) > 1 and sum(one.nbytes for one in _cache.values()) > most:
                _cache.popitem(last=False)
        return cells

    def _read(self, group: int, column: str) -> pa.ChunkedArray:
        in_struct = pa.types.is_struct(self._file.schema.field(column).type)
        chunks, size = [], 0
        for batch in self._file.batches([f"{column}.bytes" if in_struct else column], [group]):
            with self._file.named():
                # 64-bit offsets: a row group may hold more than 2 GB of strings.
                cells = pc.struct_field(batch[column], "bytes") if in_struct else batch[column]
                cells = cells.cast(pa.large_binary())
            chunks += cells.chunks
            size += cells.nbytes
            try:
                self._file.require(column, size)
            except InputError:
                chunks.clear()  # the error would keep them in memory
                raise
        return pa.chunked_array(chunks, pa.large_binary())
