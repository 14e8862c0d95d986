"""Parquet files, our own and those of users, and what every Parquet artefact shares.

A small file may be large in memory: rows that take much are read a few at a time, and refused before
they fill the memory. Never call ``metadata.row_group(i).column(j)``: on a damaged footer pyarrow ends
the process there."""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vse_pipe.core import files, memory, remote, text
from vse_pipe.core.errors import InputError, IntegrityError, PipelineError, damaged
from vse_pipe.core.files import require, whole_file

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
    """A kind of Parquet file. name: of the file; unique: column of ids; further: says what is wrong
    with the content beyond the schema."""

    name: str
    schema: pa.Schema
    unique: str = ""
    further: Problems | None = None

    def write(self, folder: Path, table: pa.Table, metadata: dict[str, str] | None = None) -> None:
        """Writes the file whole or not at all. Raises InputError with ids that occur more than once,
        and with what ``further`` says."""
        ids = table[self.unique].to_numpy() if self.unique else np.empty(0)
        repeated = list(dict.fromkeys(ids[text.repeats(ids)[0]].tolist()))[:_SHOWN]
        lines = [f"{self.unique} {value} occurs more than once" for value in repeated]
        if lines := lines + (self.further(table) if self.further else []):
            raise InputError(*(f"{folder / self.name}: {line}" for line in lines))
        write(folder / self.name, table, self.schema, metadata or {})

    def read(self, folder: Path) -> pa.Table:
        """The checked table. Raises InputError for an unfit, IntegrityError for a damaged one."""
        return read(folder / self.name, self.schema)


def write(path: Path, rows: pa.Table | Iterable[pa.Table], schema: pa.Schema, metadata: dict[str, str]) -> None:
    """Write a table, or consecutive ones, under exactly ``schema``. Appears whole or not at all.

    rows: each of several tables is a row group, and need not fit in memory with the others;
    metadata: for the footer."""
    if isinstance(rows, pa.Table):
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


def read(path: Path, schema: pa.Schema, columns: list[str] | None = None) -> pa.Table:
    """The table, with names and types checked; its writer has checked the content. columns: the only
    ones to read, as far as the file has them. Raises InputError, and as ``Parquet``."""
    with open_parquet(require(path)) as file:
        table = file.read(columns)
    for expected in schema:
        if expected.name not in table.schema.names:
            raise InputError(f"{path}: column '{expected.name}' ({expected.type}) is missing")
        column = table.schema.field(expected.name)
        if column.type != expected.type and not pa.types.is_fixed_size_list(column.type):
            raise InputError(f"{path}: column '{expected.name}' is {column.type}, expected {expected.type}")
    return table


def footer(table: pa.Table) -> dict[str, str]:
    """The footer metadata that ``write`` stored."""
    return {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (table.schema.metadata or {}).items()
    }


def read_csv(path: Path) -> "DataFrame":
    """The table that ``write_csv`` wrote. Raises InputError when it is missing or no CSV file."""
    import pandas as pd

    with damaged(path, "not the expected CSV file", InputError):
        return pd.read_csv(require(path))


# Bytes of one text in a footer, and entries of one of its lists, of columns or row groups.
_LONGEST_TEXT, _LONGEST_LIST = 2**26, 2**17
# Bytes that are decoded at a time.
_AT_ONCE = 2**24
# Content takes no more than so many times the file's size (vectors and captions: 2 to 20), or bytes.
_UNPACKED, _SMALL = 1000, 2**26


class Parquet:
    """An open file. metadata, schema: pyarrow's. Raises ``kind`` where the file is damaged, and
    InputError where the content takes too much memory."""

    def __init__(self, path: Path, kind: type[PipelineError] = IntegrityError) -> None:
        self.path, self._kind = path, kind
        with self.named():
            source = remote.open_remote(path) if files.is_remote(path) else pa.OSFile(os.fsencode(path))
            self._most = max(_SMALL, _UNPACKED * source.seek(0, os.SEEK_END))
            self._file = pq.ParquetFile(
                source,
                page_checksum_verification=True,
                thrift_string_size_limit=_LONGEST_TEXT,
                thrift_container_size_limit=_LONGEST_LIST,
            )
            self.metadata, self.schema = self._file.metadata, self._file.schema_arrow

    def close(self) -> None:
        self._file.close(force=True)  # pyarrow leaves open what it did not open

    def named(self) -> contextlib.AbstractContextManager[None]:
        """Raises ``kind`` for any exception within."""
        return damaged(self.path, "damaged Parquet file", self._kind)

    def read(self, columns: list[str] | None = None, groups: list[int] | None = None) -> pa.Table:
        """columns: names, or paths such as ``image.bytes``; groups: row groups; None: all."""
        tables, size = [], 0
        for table in self.batches(columns, groups, ROWS):
            size += table.nbytes
            self._require(columns, size)
            tables.append(table)
        with self.named():
            return pa.concat_tables(tables) if tables else self._file.read_row_groups([], columns=columns)

    def batches(
        self, columns: list[str] | None = None, groups: list[int] | None = None, rows: int = 1024
    ) -> Iterator[pa.Table]:
        """``read`` in tables of ``rows`` rows at most, and of fewer where the first row of a row
        group is large."""
        for group in range(self.metadata.num_row_groups) if groups is None else groups:
            with self.named():
                first = next(self._file.iter_batches(1, row_groups=[group], columns=columns), None)
                most = min(rows, max(1, _AT_ONCE // max(1, first.nbytes if first else 0)))
                for batch in self._file.iter_batches(most, row_groups=[group], columns=columns):
                    self._require(columns, batch.nbytes)
                    yield pa.Table.from_batches([batch])

    def _require(self, columns: list[str] | None, size: int) -> None:
        content = f"{self.path}: {', '.join(columns) if columns else 'its content'}"
        memory.require(content, size)
        if size > self._most:
            raise InputError(f"{content} takes {size} bytes, more than any file of this size holds; write it anew")


def open_parquet(path: Path, kind: type[PipelineError] = IntegrityError) -> contextlib.AbstractContextManager[Parquet]:
    return contextlib.closing(Parquet(path, kind))
