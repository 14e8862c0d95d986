"""Bytes of images in Parquet files, read by row: a row group at a time, kept until others are asked for.

Rows in order cost one pass over the file, with one or two row groups in memory; rows at random read a row group each.
"""

import threading
from collections import OrderedDict
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core.errors import InputError

# Of one column in one row group; more would be read for a single picture.
LARGEST_GROUP = 2**30
_KEPT_GROUPS = 2
_KEPT_FILES = 4
# lru_cache lets two threads open the same file at once, and each would then read its row groups.
_opening = threading.Lock()


def value(path: Path, row: int, column: str) -> bytes | None:
    """The bytes in ``column`` of one row, None where there are none. Raises IndexError when there is no such row or
    column, InputError when the file is no Parquet file, is damaged, or its row groups are too large to be read by row."""
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    with _opening:
        file = opened(path.resolve(), status.st_mtime_ns, status.st_size)
    return file.value(row, column)


@lru_cache(maxsize=_KEPT_FILES)
def opened(path: Path, modified: int, size: int) -> "CellFile":
    """Opened once for as long as it stays the same file."""
    return CellFile(path)


class CellFile:
    """One Parquet file and the row groups that were read last."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = pq.ParquetFile(path, memory_map=False)
        except (OSError, pa.ArrowException, ValueError) as error:
            raise InputError(f"{path}: not a whole Parquet file ({_line(error)})") from error
        self._metadata = self._file.metadata
        counts = [self._metadata.row_group(i).num_rows for i in range(self._metadata.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        self._groups: OrderedDict[tuple[int, str], pa.Array] = OrderedDict()
        self._lock = threading.Lock()

    def value(self, row: int, column: str) -> bytes | None:
        if row >= self._starts[-1]:
            raise IndexError(f"has {self._starts[-1]} rows, no row {row}")
        if column not in self._file.schema_arrow.names:
            raise IndexError(f"has no column '{column}'")
        group = int(np.searchsorted(self._starts, row, side="right")) - 1
        # Held while a group is read, so that threads wait for it and do not each read it.
        with self._lock:
            cells = self._group(group, column)
        return cells[row - int(self._starts[group])].as_py()

    def _group(self, group: int, column: str) -> pa.Array:
        key = group, column
        if key not in self._groups:
            self._groups[key] = self._read(group, column)
            while len(self._groups) > _KEPT_GROUPS:
                self._groups.popitem(last=False)
        self._groups.move_to_end(key)
        return self._groups[key]

    def _read(self, group: int, column: str) -> pa.Array:
        self._refuse_large(group, column)
        leaf = f"{column}.bytes" if pa.types.is_struct(self._file.schema_arrow.field(column).type) else column
        try:
            found = self._file.read_row_group(group, columns=[leaf], use_threads=False)[column]
        except (OSError, pa.ArrowException, ValueError) as error:
            raise InputError(f"{self.path}: row group {group} is damaged ({_line(error)})") from error
        found = pa.concat_arrays(found.cast(_binary(found.type)).chunks)
        return found.field("bytes") if pa.types.is_struct(found.type) else found

    def _refuse_large(self, group: int, column: str) -> None:
        about = self._metadata.row_group(group)
        columns = [about.column(number) for number in range(about.num_columns)]
        size = sum(one.total_uncompressed_size for one in columns if one.path_in_schema.split(".")[0] == column)
        if size > LARGEST_GROUP:
            raise InputError(
                f"{self.path}: row group {group} holds {size} bytes of '{column}', more than the {LARGEST_GROUP} that can be "
                "kept; write the file with a smaller row_group_size"
            )


def _binary(kind: pa.DataType) -> pa.DataType:
    """64-bit offsets: a row group may hold more than 2 GB of strings."""
    if pa.types.is_struct(kind):
        return pa.struct([("bytes", pa.large_binary())])
    return pa.large_binary()


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
