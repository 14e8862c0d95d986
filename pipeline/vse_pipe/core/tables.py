"""Parquet files, our own and those of users, and what every Parquet artefact shares.

pyarrow compares the checksums of pages and limits what a footer may hold. A small file may be large in memory, as when
a million rows name one long text of a dictionary: what its footer says is refused before anything is decoded, and rows
that take much memory are read a few at a time. An error of pyarrow on a damaged file becomes one line with the file's
name. Never call ``metadata.row_group(i).column(j)``: on a damaged footer pyarrow ends the process there.
"""

import contextlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from vse_pipe.core import files, memory, remote
from vse_pipe.core.errors import Damage, InputError, IntegrityError
from vse_pipe.core.files import require, whole_file
from vse_pipe.core.places import command_of

if TYPE_CHECKING:
    from pandas import DataFrame


_SHOWN = 3
# Rows of a row group, pyarrow's default.
ROWS = 2**20
Problems = Callable[[pa.Table], list[str]]


def field(name: str, kind: pa.DataType, about: str, nullable: bool = False) -> pa.Field:
    """A column with its meaning and units in the field's metadata."""
    return pa.field(name, kind, nullable=nullable, metadata={"about": about})


def schema(artefact: str, *columns: pa.Field) -> pa.Schema:
    """A schema of these columns, with its kind and version in the footer. artefact: "images 1"."""
    kind, version = artefact.rsplit(" ", 1)
    return pa.schema(columns, metadata={"artefact": kind, "version": version})


@dataclass(frozen=True)
class Artefact:
    """A kind of Parquet file. name: of the file; unique: column of ids; further, required_key: as ``problems`` and
    ``required_key`` of ``read``."""

    name: str
    schema: pa.Schema
    unique: str = ""
    further: Problems | None = None
    required_key: str = ""

    def problems(self, table: pa.Table) -> list[str]:
        """What is wrong with the content beyond the schema."""
        ids = repeated(table, self.unique) if self.unique else []
        return ids + (self.further(table) if self.further else [])

    def write(self, folder: Path, table: pa.Table, metadata: dict[str, str] | None = None) -> None:
        """Writes the file whole or not at all. Raises InputError with every problem."""
        write(folder / self.name, table, self.schema, metadata or {}, self.problems)

    def read(self, folder: Path) -> pa.Table:
        """The checked table. Raises InputError where it is missing or unfit, IntegrityError where it is damaged."""
        return read(folder / self.name, self.schema, None, self.problems, self.required_key)


def write(
    path: Path,
    rows: pa.Table | Iterable[pa.Table],
    schema: pa.Schema,
    metadata: dict[str, str],
    problems: Problems | None = None,
) -> None:
    """Write a table, or consecutive ones, under exactly ``schema``. Appears whole or not at all.

    rows: each of several tables is a row group, and need not fit in memory with the others; metadata: for the footer;
    problems: what is wrong with the content of a table beyond the schema. Raises InputError with all of them.
    """
    if isinstance(rows, pa.Table):
        problems_or_pass(path, problems(rows) if problems else [])
        # How the rows were cut before would show in the bytes.
        rows = [rows.combine_chunks()]
    plain = schema.remove_metadata()
    encoded = {key.encode(): value.encode() for key, value in metadata.items()}
    full = schema.with_metadata({**(schema.metadata or {}), **encoded})
    # pyarrow itself takes a name with a colon for a URI, and opens no name that is not UTF-8.
    with (
        whole_file(path) as temporary,
        pa.OSFile(os.fsencode(temporary), "wb") as file,
        pq.ParquetWriter(file, full, compression="zstd", write_page_checksum=True) as writer,
    ):
        for table in rows:
            writer.write_table(table.select(schema.names).cast(plain).cast(full), row_group_size=ROWS)


def read(
    path: Path,
    schema: pa.Schema,
    columns: list[str] | None = None,
    problems: Problems | None = None,
    required_key: str = "",
) -> pa.Table:
    """The table, with names, types and nulls checked. Raises InputError, and as ``open_parquet``.

    columns: the only columns to read, as far as the file has them; ``schema`` then holds for these. problems: as for
    ``write``; required_key: a key that the footer must have.
    """
    with open_parquet(require(path)) as file:
        table = file.read(columns)
    _require_columns(path, table, schema)
    try:
        metadata = footer(table)
    except UnicodeDecodeError as error:  # checksums cover pages only
        raise InputError(f"{path}: its footer is damaged ({error})") from error
    if required_key and required_key not in metadata:
        raise InputError(
            f"{path}: its footer does not say '{required_key}', as if another program had written it; make it again"
        )
    problems_or_pass(path, problems(table) if problems else [])
    return table


def scan(path: Path, schema: pa.Schema, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """Consecutive rows, at most a row group at a time, each checked as by ``read``."""
    with open_parquet(require(path)) as file:
        for table in file.batches(columns, rows=None):
            _require_columns(path, table, schema)
            yield table


def _require_columns(path: Path, table: pa.Table, schema: pa.Schema) -> None:
    for expected in schema:
        if expected.name not in table.schema.names:
            raise InputError(f"{path}: column '{expected.name}' ({expected.type}) is missing")
        column = table.schema.field(expected.name)
        if column.type != expected.type and not pa.types.is_fixed_size_list(column.type):
            raise InputError(f"{path}: column '{expected.name}' is {column.type}, expected {expected.type}")
        if not expected.nullable and table[expected.name].null_count:
            raise InputError(f"{path}: column '{expected.name}' has {table[expected.name].null_count} nulls")


def footer(table: pa.Table) -> dict[str, str]:
    """The footer metadata that ``write`` stored."""
    return {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}


def repeated(table: pa.Table, key: str) -> list[str]:
    """The first few values of a column that occur more than once, as problems."""
    if pa.types.is_integer(table.schema.field(key).type) and not table[key].null_count:
        # Counting takes 100 bytes a value, and ids mostly rise.
        ids = table[key].to_numpy()
        if (ids[1:] > ids[:-1]).all() or len(np.unique(ids)) == len(ids):
            return []
    counts = table[key].combine_chunks().value_counts()
    values = counts.field("values").filter(pc.greater(counts.field("counts"), 1))[:_SHOWN].to_pylist()
    return [f"{key} {value} occurs more than once" for value in values]


def problems_or_pass(path: Path, problems: list[str]) -> None:
    """Raises InputError with every problem, each on a line that begins with the file."""
    if problems:
        raise InputError(*(f"{path}: {problem}" for problem in problems))


def read_csv(path: Path, columns: Sequence[str]) -> "DataFrame":
    """The table that ``write_csv`` wrote. Raises InputError when it is missing, is no CSV file or lacks one of
    ``columns``."""
    import pandas as pd

    command = command_of(path)
    again = f"run `{command}` again" if command else "make it again"
    try:
        with warnings.catch_warnings():
            # For lines longer than the header: pandas would take their first cells for an index.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(require(path), index_col=False)
    except (ValueError, pd.errors.ParserWarning) as error:
        raise InputError(f"{path}: not a CSV file ({' '.join(str(error).split())}); {again}") from error
    if absent := [name for name in columns if name not in table]:
        raise InputError(f"{path}: column '{absent[0]}' is missing; {again}")
    return table


_WHAT = "damaged Parquet file"
# Limits of a footer: bytes of a text, and entries of a list of columns or row groups.
_LONGEST_TEXT, _LONGEST_LIST = 2**26, 2**17
# Bytes that are read at a time for callers that take a few rows, and for the first row of a column.
_STREAMED, _PIECE = 2**26, 2**16
# Content takes no more than so many times the file's size, or than so many bytes. Vectors and captions take 2 to 20
# times the size.
_UNPACKED, _SMALL = 1000, 2**26
DAMAGE = Damage(IntegrityError, "make it again")


class Parquet:
    """An open file. metadata, schema: pyarrow's. Reading raises InputError where the content takes too much memory, and
    ``damage`` where the file is damaged. most: largest size in bytes of a row group, for readers that hold one group.
    Opening raises InputError for a small file of large content.
    """

    def __init__(self, path: Path, damage: Damage = DAMAGE, most: int | None = None) -> None:
        self.path, self._damage, self._most = path, damage, most
        with self.named():
            self._file = self._opened()
            self.metadata, self.schema = self._file.metadata, self._file.schema_arrow
            groups = range(self.metadata.num_row_groups)
            content = sum(self.metadata.row_group(group).total_byte_size for group in groups)
        self._require_real("its content", content)

    def close(self) -> None:
        self._file.close(force=True)  # pyarrow leaves open what it did not open

    def _opened(self, **options: object) -> pq.ParquetFile:
        source = remote.open_remote(self.path) if files.is_remote(self.path) else pa.OSFile(os.fsencode(self.path))
        self._size = source.seek(0, os.SEEK_END)
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
        """Raises ``damage`` for any exception within."""
        return self._damage.named(self.path, _WHAT)

    def require(self, content: str, size: int) -> None:
        """Raises InputError unless ``content`` may take ``size`` bytes."""
        memory.require(f"{self.path}: {content}", size)
        self._require_real(content, size)
        if self._most is not None and size > self._most:
            raise InputError(
                f"{self.path}: a row group takes {size} bytes of '{content}', more than the {self._most} that can be kept; write the file with a smaller row_group_size"
            )

    def _require_real(self, content: str, size: int) -> None:
        """Raises InputError for content that no file of this size holds."""
        if size > self._most_real:
            raise InputError(f"{self.path}: {content} takes {size} bytes, and the file has {self._size}; write it anew")

    @property
    def _most_real(self) -> int:
        return max(_SMALL, _UNPACKED * self._size)

    def read(self, columns: list[str] | None = None, groups: list[int] | None = None) -> pa.Table:
        """columns: names, or paths of leaves such as ``image.bytes``; groups: numbers of row groups. None means all."""
        rows = sum(self.metadata.row_group(group).num_rows for group in self._groups(groups))
        kinds = [one.type for one in self.schema if columns is None or one.name in columns]
        self.require(_content_name(columns), rows * sum(map(_width, kinds)))
        tables, size = [], 0
        for table in self.batches(columns, groups, rows=None):
            size += table.nbytes
            self.require(_content_name(columns), size)
            tables.append(table)
        with self.named():
            return pa.concat_tables(tables) if tables else self._file.read_row_groups([], columns=columns)

    def batches(
        self, columns: list[str] | None = None, groups: list[int] | None = None, rows: int | None = 1024
    ) -> Iterator[pa.Table]:
        """``read`` in tables of at most ``rows`` rows. None: whole row groups where they are not too large."""
        for group in self._groups(groups):
            yield from self._group(group, columns, rows)

    def _groups(self, groups: list[int] | None) -> Iterable[int]:
        return range(self.metadata.num_row_groups) if groups is None else groups

    def _group(self, group: int, columns: list[str] | None, rows: int | None) -> Iterator[pa.Table]:
        with self.named():
            count, row = self.metadata.row_group(group).num_rows, self._row(group, columns)
        self.require(_content_name(columns), row)
        most = min(memory.available(), self._most or memory.available(), self._most_real)
        at_once = min(rows or count, max(1, min(most, _STREAMED if rows else most) // max(1, row)))
        with self.named():
            if at_once >= count:
                tables = iter([self._file.read_row_group(group, columns=columns)])
            else:
                batches = self._file.iter_batches(at_once, row_groups=[group], columns=columns)
                tables = (pa.Table.from_batches([batch]) for batch in batches)
            for table in tables:
                self.require(_content_name(columns), table.nbytes)
                yield table

    def first_row(self, columns: list[str]) -> dict:
        """The first row; empty where the file has none."""
        with self.named():
            first = self._first(0, columns) if self.metadata.num_rows else None
            return first.to_pylist()[0] if first else {}

    def _first(self, group: int, columns: list[str] | None) -> pa.RecordBatch | None:
        try:
            return next(self._undecoded.iter_batches(1, row_groups=[group], columns=columns), None)
        except OSError:  # pyarrow has no dictionaries of texts in the encodings DELTA_*
            return next(self._file.iter_batches(1, row_groups=[group], columns=columns), None)

    def _row(self, group: int, columns: list[str] | None) -> int:
        """Bytes that a row may take: those of the first row, with each text as long as the longest in its dictionary."""
        first = self._first(group, columns)
        if first is None:
            return 0
        return first.nbytes + sum(_undecoded(leaf) for column in first.columns for leaf in _leaves(column))


@contextlib.contextmanager
def open_parquet(path: Path, damage: Damage = DAMAGE) -> Iterator[Parquet]:
    """Raises as ``Parquet`` does."""
    file = Parquet(path, damage)
    try:
        yield file
    finally:
        file.close()


def row_count(path: Path) -> int | None:
    """The number of rows by the footer; None where the file is missing or cannot be read."""
    try:
        with open_parquet(path) as file:
            return file.metadata.num_rows
    except (OSError, InputError, IntegrityError):
        return None


def _width(kind: pa.DataType) -> int:
    """Bytes of a value of fixed size; 0 for other values."""
    if pa.types.is_fixed_size_list(kind):
        return kind.list_size * _width(kind.value_type)
    try:
        return kind.bit_width // 8
    except ValueError:
        return 0


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    """The arrays within lists and structs."""
    if not pa.types.is_nested(array.type):
        yield array
        return
    for child in array.flatten() if pa.types.is_struct(array.type) else [array.flatten()]:
        yield from _leaves(child)


def _undecoded(leaf: pa.Array) -> int:
    """Bytes that the texts of a row may take beyond those of their dictionary; negative where they take less."""
    if not pa.types.is_dictionary(leaf.type):
        return 0
    lengths = pc.binary_length(leaf.dictionary).cast(pa.int64())
    row, longest = pc.sum(lengths.take(leaf.indices)).as_py(), pc.max(lengths).as_py()
    return max(row or 0, longest or 0) - leaf.dictionary.nbytes


def _content_name(columns: list[str] | None) -> str:
    return ", ".join(columns) if columns else "its content"
