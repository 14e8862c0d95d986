"""The one place that opens Parquet files, our own and those of users.

pyarrow compares the checksums of pages and limits what a footer may hold. Rows that take much memory are read a few at a
time: a small file may be large, as when a million rows name one long text of a dictionary. An error of pyarrow on a
damaged file becomes one line with the file's name. Never call ``metadata.row_group(i).column(j)``: on a damaged footer
pyarrow ends the process there.
"""

import contextlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from vse_pipe.core import files, memory, remote
from vse_pipe.core.errors import Damage, InputError, IntegrityError

_WHAT = "damaged Parquet file"
# Bytes of a text in a footer, and entries of a list: columns, row groups.
_LONGEST_TEXT, _LONGEST_LIST = 2**26, 2**17
# Bytes that are read at a time where a caller takes few rows at a time.
_STREAMED = 2**26
# Bytes of a column that are read at a time where only its first row is wanted, in place of all.
_PIECE = 2**16


OURS = Damage(IntegrityError, "make it again")


class Parquet:
    """An open file. metadata, schema: pyarrow's. Reading raises InputError where the content takes more memory than it may,
    and ``damage`` where the file is not whole. most: the largest size in bytes of a row group, for readers that hold one
    group at a time."""

    def __init__(self, path: Path, damage: Damage = OURS, most: int | None = None) -> None:
        self.path, self._damage, self._most = path, damage, most
        with self.named():
            self._file = self._opened()
            self.metadata, self.schema = self._file.metadata, self._file.schema_arrow

    def close(self) -> None:
        self._file.close()

    def _opened(self, **options: object) -> pq.ParquetFile:
        source = remote.open_remote(self.path) if files.is_remote(self.path) else self.path
        return pq.ParquetFile(
            source,
            page_checksum_verification=True,
            thrift_string_size_limit=_LONGEST_TEXT,
            thrift_container_size_limit=_LONGEST_LIST,
            **options,
        )

    @cached_property
    def _undecoded(self) -> pq.ParquetFile:
        """The same file; texts come as dictionaries, as they are stored."""
        columns = map(self.metadata.schema.column, range(len(self.metadata.schema.names)))
        texts = [
            one.path for one in columns if one.physical_type == "BYTE_ARRAY" and one.logical_type.type != "DECIMAL"
        ]
        return self._opened(metadata=self.metadata, read_dictionary=texts, pre_buffer=False, buffer_size=_PIECE)

    def named(self) -> contextlib.AbstractContextManager[None]:
        """Around what only a damaged file fails in."""
        return self._damage.named(self.path, _WHAT)

    def require(self, what: str, size: int) -> None:
        """Raises InputError unless ``what`` may take ``size`` bytes."""
        memory.require(f"{self.path}: {what}", size)
        if self._most is not None and size > self._most:
            raise InputError(
                f"{self.path}: a row group takes {size} bytes of '{what}', more than the {self._most} that can be kept; write "
                "the file with a smaller row_group_size"
            )

    def read(self, columns: list[str] | None = None, groups: list[int] | None = None) -> pa.Table:
        """columns: names, or paths of leaves such as ``image.bytes``; groups: of rows. All without."""
        tables, size = [], 0
        for table in self.batches(columns, groups, rows=None):
            size += table.nbytes
            self.require(_name(columns), size)
            tables.append(table)
        with self.named():
            return pa.concat_tables(tables) if tables else self._file.read_row_groups([], columns=columns)

    def batches(
        self, columns: list[str] | None = None, groups: list[int] | None = None, rows: int | None = 1024
    ) -> Iterator[pa.Table]:
        """As ``read``, at most ``rows`` at a time, None for whole row groups where they are not too large."""
        for group in range(self.metadata.num_row_groups) if groups is None else groups:
            yield from self._group(group, columns, rows)

    def _group(self, group: int, columns: list[str] | None, rows: int | None) -> Iterator[pa.Table]:
        with self.named():
            count, row = self.metadata.row_group(group).num_rows, self._row(group, columns)
        self.require(_name(columns), row)
        most = min(memory.left(), self._most or memory.left())
        at_once = min(rows or count, max(1, min(most, _STREAMED if rows else most) // max(1, row)))
        with self.named():
            if at_once >= count:
                tables = iter([self._file.read_row_group(group, columns=columns)])
            else:
                batches = self._file.iter_batches(at_once, row_groups=[group], columns=columns)
                tables = (pa.Table.from_batches([batch]) for batch in batches)
            for table in tables:
                self.require(_name(columns), table.nbytes)
                yield table

    def _row(self, group: int, columns: list[str] | None) -> int:
        """Bytes that a row may take: those of the first row, its texts as long as the longest of their dictionary."""
        try:
            first = next(self._undecoded.iter_batches(1, row_groups=[group], columns=columns), None)
        except OSError:  # pyarrow has no dictionaries of texts in the encodings DELTA_*
            first = next(self._file.iter_batches(1, row_groups=[group], columns=columns), None)
        if first is None:
            return 0
        return first.nbytes + sum(_undecoded(leaf) for column in first.columns for leaf in _leaves(column))


@contextlib.contextmanager
def opened(path: Path, damage: Damage = OURS) -> Iterator[Parquet]:
    """Raises as ``Parquet`` does."""
    file = Parquet(path, damage)
    try:
        yield file
    finally:
        file.close()


def rows(path: Path) -> int | None:
    """The number of rows, by the footer; None where the file is not there or cannot be read."""
    try:
        with opened(path) as file:
            return file.metadata.num_rows
    except (OSError, InputError, IntegrityError):
        return None


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    """The arrays within lists and structs."""
    if not pa.types.is_nested(array.type):
        yield array
        return
    for child in array.flatten() if pa.types.is_struct(array.type) else [array.flatten()]:
        yield from _leaves(child)


def _undecoded(leaf: pa.Array) -> int:
    """Bytes that the texts of a row may take beyond those of their dictionary, less than 0 where they take less."""
    if not pa.types.is_dictionary(leaf.type):
        return 0
    lengths = pc.binary_length(leaf.dictionary).cast(pa.int64())
    row, longest = pc.sum(lengths.take(leaf.indices)).as_py(), pc.max(lengths).as_py()
    return max(row or 0, longest or 0) - leaf.dictionary.nbytes


def _name(columns: list[str] | None) -> str:
    return ", ".join(columns) if columns else "its content"
