"""The mechanics every Parquet artefact shares: exact schema, page checksums, footer metadata, checks both ways."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from vse_pipe.core import parquet
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import require, whole_file
from vse_pipe.core.mapped import unchanged_path

if TYPE_CHECKING:
    from pandas import DataFrame


_SHOWN = 3
_GROUP = 2**16
# Of a row group, as pyarrow has it.
ROWS = 2**20
Problems = Callable[[pa.Table], list[str]]


def field(name: str, kind: pa.DataType, about: str, nullable: bool = False) -> pa.Field:
    """A column with its meaning and units in the field's metadata."""
    return pa.field(name, kind, nullable=nullable, metadata={"about": about})


def with_footer(schema: pa.Schema, metadata: dict[str, str]) -> pa.Schema:
    """``schema`` with ``metadata`` beside its own."""
    own = {key.encode(): value.encode() for key, value in metadata.items()}
    return schema.with_metadata({**(schema.metadata or {}), **own})


def write(
    path: Path, table: pa.Table, schema: pa.Schema, metadata: dict[str, str], problems: Problems | None = None
) -> None:
    """Write ``table`` under exactly ``schema``; ``metadata`` goes to the footer. Appears whole or not at all.

    problems: what is wrong with the content beyond the schema, if anything. Raises InputError with all of them.
    """
    problems_or_pass(path, problems(table) if problems else [])
    # A row group in one piece: how the rows were cut before would show in the bytes.
    starts = range(0, max(1, table.num_rows), ROWS)
    write_each(path, (table.slice(start, ROWS).combine_chunks() for start in starts), schema, metadata)


def write_each(path: Path, tables: Iterable[pa.Table], schema: pa.Schema, metadata: dict[str, str]) -> None:
    """``write`` for rows that come in several tables and need not fit in memory together; each is a row group."""
    plain = schema.remove_metadata()
    with (
        whole_file(path) as temporary,
        pq.ParquetWriter(
            temporary, with_footer(schema, metadata), compression="zstd", write_page_checksum=True
        ) as file,
    ):
        for table in tables:
            file.write_table(table.select(schema.names).cast(plain).cast(file.schema))


def write_groups(path: Path, tables: Iterable[pa.Table], schema: pa.Schema, metadata: dict[str, str]) -> None:
    """As ``write_each``, but row groups hold ``_GROUP`` rows however the rows come, so that the bytes do not depend on it."""
    plain = schema.remove_metadata()

    def groups() -> Iterator[pa.Table]:
        waiting = plain.empty_table()
        for table in tables:
            waiting = pa.concat_tables([waiting, table.select(schema.names).cast(plain)])
            while waiting.num_rows >= _GROUP:
                yield waiting.slice(0, _GROUP)
                waiting = waiting.slice(_GROUP)
        if waiting.num_rows:
            yield waiting

    write_each(path, groups(), schema, metadata)


def read(
    path: Path,
    schema: pa.Schema,
    made_by: str = "",
    columns: list[str] | None = None,
    problems: Problems | None = None,
    told: str = "",
) -> pa.Table:
    """Read and check names, types and nulls. Raises InputError, and as ``unchanged.same`` and ``parquet.opened``.

    columns: the only ones to read, those of them that the file has; ``schema`` then holds for those. problems: as for ``write``;
    told: what the footer must say.
    """
    with parquet.opened(unchanged_path(require(path, made_by))) as file:
        table = file.read(columns)
    _require_columns(path, table, schema)
    try:
        said = footer(table)
    except UnicodeDecodeError as error:  # checksums are of pages alone
        raise InputError(f"{path}: its footer is damaged ({error})") from error
    if told and told not in said:
        raise InputError(
            f"{path}: its footer does not say '{told}', as if another program had written it; make it again"
        )
    problems_or_pass(path, problems(table) if problems else [])
    return table


def scan(path: Path, schema: pa.Schema, made_by: str = "", columns: list[str] | None = None) -> Iterator[pa.Table]:
    """Consecutive rows, at most a row group at a time, each checked as by ``read``."""
    with parquet.opened(unchanged_path(require(path, made_by))) as file:
        for table in file.batches(columns, rows=None):
            _require_columns(path, table, schema)
            yield table


def _require_columns(path: Path, table: pa.Table, schema: pa.Schema) -> None:
    for wanted in schema:
        if wanted.name not in table.schema.names:
            raise InputError(f"{path}: column '{wanted.name}' ({wanted.type}) is missing")
        found = table.schema.field(wanted.name)
        if found.type != wanted.type and not pa.types.is_fixed_size_list(found.type):
            raise InputError(f"{path}: column '{wanted.name}' is {found.type}, expected {wanted.type}")
        if not wanted.nullable and table[wanted.name].null_count:
            raise InputError(f"{path}: column '{wanted.name}' has {table[wanted.name].null_count} nulls")


def footer(table: pa.Table) -> dict[str, str]:
    """The footer metadata that ``write`` stored."""
    return {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}


def repeated(table: pa.Table, key: str) -> list[str]:
    """The first few values of a column that occur more than once, as problems."""
    if pa.types.is_integer(table.schema.field(key).type) and not table[key].null_count:
        # Counting takes 100 bytes for each; ids mostly rise.
        ids = table[key].to_numpy()
        if (ids[1:] > ids[:-1]).all() or len(np.unique(ids)) == len(ids):
            return []
    counts = table[key].combine_chunks().value_counts()
    found = counts.field("values").filter(pc.greater(counts.field("counts"), 1))[:_SHOWN].to_pylist()
    return [f"{key} {value} occurs more than once" for value in found]


def problems_or_pass(path: Path, problems: list[str]) -> None:
    """Raises InputError with every problem, each on a line that begins with the file."""
    if problems:
        raise InputError("\n".join(f"{path}: {problem}" for problem in problems))


_MOST = 100


def read_csv(path: Path, columns: Sequence[str], made_by: str) -> "DataFrame":
    """What ``write_csv`` wrote. Raises InputError when the file is missing, is none or lacks one of ``columns``."""
    import pandas as pd

    again = f"run `{made_by}` again"
    try:
        with require(path, made_by).open(encoding="utf-8") as file:
            names = file.readline().rstrip("\n").split(",")
        # Before pandas, which needs seconds for ten thousand columns of a damaged file.
        for name in columns:
            if name not in names:
                raise InputError(f"{path}: column '{name}' is missing; {again}")
        if len(names) > _MOST:
            raise InputError(f"{path}: has {len(names)} columns; {again}")
        with warnings.catch_warnings():
            # Of lines longer than the header, whose first cells pandas would else take for an index.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(path, index_col=False)
    except (ValueError, pd.errors.ParserWarning) as error:
        raise InputError(f"{path}: not a CSV file ({' '.join(str(error).split())}); {again}") from error
