"""The one place that opens Parquet files, our own and those that users give: checksums are verified, and nothing is decoded
that takes more memory than there may be, by the sizes that the footer and the headers of pages declare.

A small file may be large: a dictionary whose one long text a million rows name, pages that pack to nothing, lists of fixed
size that are null. Whatever pyarrow says of a damaged file ends as one line with its name.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from vse_pipe.core import memory, needs, pages, remote, urls
from vse_pipe.core.damage import Damage
from vse_pipe.core.errors import InputError, IntegrityError

_WHAT = "damaged Parquet file"
_TAIL = 8
# Bytes of some rows at a time, as far as headers tell.
_STREAMED = 2**26
# What a byte of the footer takes at most once it is read: measured, 227, on columns of which nothing is said.
_OF_FOOTER = 240


OURS = Damage(IntegrityError, "make it again")


class Parquet:
    """An open file. metadata, schema: as pyarrow has them. Reading raises InputError where the content takes more memory than
    there may be, and ``damage`` where the file is not whole. most: bytes that one row group may take, where they are read one
    at a time."""

    def __init__(self, path: Path, damage: Damage = OURS, most: int | None = None) -> None:
        self.path, self._damage, self._most = path, damage, most
        with remote.opened(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            length = min(int.from_bytes(file.read(_TAIL // 2), "little"), size)
            memory.require(f"{path}: its footer", length * _OF_FOOTER)
            file.seek(max(0, size - _TAIL - length))
            footer = file.read(length)
        with self.named():
            self._file = self._opened()
            self.metadata, self.schema = self._file.metadata, self._file.schema_arrow
            pages.require_sound(footer, self.metadata.schema)

    def close(self) -> None:
        self._file.close()

    def _opened(self, as_dictionaries: list[str] | None = None) -> pq.ParquetFile:
        source = remote.opened(self.path) if urls.is_remote(self.path) else self.path
        return pq.ParquetFile(source, read_dictionary=as_dictionaries, page_checksum_verification=True)

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
        found, size = [], 0
        for batch in self.batches(columns, groups, rows=None):
            size += batch.nbytes
            self.require(_said(columns), size)
            found.append(batch)
        with self.named():
            return pa.concat_tables(found) if found else self._file.read_row_groups([], columns=columns)

    def batches(
        self, columns: list[str] | None = None, groups: list[int] | None = None, rows: int | None = 1024
    ) -> Iterator[pa.Table]:
        """As ``read``, at most ``rows`` at a time, None for whole row groups where they are not too large.

        Texts in lists come as dictionaries where they would take more than there may be; see ``written_out``.
        """
        chosen = list(range(self.metadata.num_row_groups)) if groups is None else groups
        with self.named():
            wanted = [needs.of_group(self.path, self._file, group, columns) for group in chosen]
        self.require(_said(columns), sum(need.certain for need in wanted))
        for group, need in zip(chosen, wanted, strict=True):
            yield from self._group(group, need, columns, rows)

    def _group(self, group: int, need: needs.Need, columns: list[str] | None, rows: int | None) -> Iterator[pa.Table]:
        spare = min(memory.left(), memory.left() if self._most is None else self._most) - need.certain
        count, file = max(1, self.metadata.row_group(group).num_rows), self._file
        per_row = need.per_row
        if rows is not None:
            spare, per_row = min(spare, _STREAMED), per_row + need.certain // count
        at_once = min(rows or count, max(1, spare // per_row) if per_row else count)
        if need.in_lists > spare:
            if need.alike:
                self.require(_said(columns), need.certain + need.in_lists)
            with self.named():
                file = self._opened(need.nested)
        with self.named():
            if at_once >= count:
                yield file.read_row_group(group, columns=columns)
                return
            for batch in file.iter_batches(at_once, row_groups=[group], columns=columns):
                yield pa.Table.from_batches([batch])


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


def written_out(column: pa.ChunkedArray) -> int:
    """Bytes of the texts in a column that came as a dictionary, or lists of one, taken apart; 0 of any other column."""
    total = 0
    for chunk in column.chunks:
        flat = chunk.flatten() if pa.types.is_nested(chunk.type) else chunk
        if pa.types.is_dictionary(flat.type):
            lengths = pc.binary_length(flat.dictionary).cast(pa.int64())
            total += pc.sum(lengths.take(flat.indices)).as_py() or 0
    return total


def _said(columns: list[str] | None) -> str:
    return ", ".join(columns) if columns else "its content"
