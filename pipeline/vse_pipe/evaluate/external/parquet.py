"""Vectors, ids and judgements in Parquet that other programs wrote: several types are welcome, columns beyond these ignored."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.core import mapped, memory, parquet, tables
from vse_pipe.core.errors import Damage, InputError, IntegrityError
from vse_pipe.evaluate.external.book import Book
from vse_pipe.evaluate.external.given import given


def read(path: Path, columns: Sequence[str], optional: Sequence[str] = ()) -> pa.Table:
    """Those columns of a file. Raises InputError for one that is missing and for more than may be read, IntegrityError for
    a damaged file and for one that is written anew meanwhile."""
    if given(path).is_dir():
        raise InputError(f"{path}: a folder, expected a Parquet file")
    if not path.stat().st_size:
        raise InputError(f"{path}: the file is empty")
    with mapped.throughout(path), parquet.opened(path, Damage(IntegrityError, "write it again")) as file:
        names = file.schema.names
        for name in [*columns, *optional]:
            if names.count(name) > 1:
                raise InputError(f"{path}: column '{name}' occurs {names.count(name)} times")
            if name not in names and name in columns:
                raise InputError(f"{path}: column '{name}' is missing; the file has {', '.join(names)}")
        found = file.read([*columns, *(name for name in optional if name in names)])
        with file.named():
            tables.footer(found)  # no text where it is damaged: checksums are of pages alone
    memory.take(str(path), found.nbytes)
    for name in found.column_names:
        try:
            found[name].validate(full=True)
        except pa.ArrowInvalid as error:
            raise InputError(f"{path}: column '{name}' cannot be read: {' '.join(str(error).split())}") from error
    return found


def ids(path: Path, table: pa.Table, name: str, book: Book | None = None) -> np.ndarray:
    """An integer column, or one of text by its numbers in ``book``, as int64. Raises InputError for another type, nulls and values
    beyond int64."""
    column, book = table[name], book or Book()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if not text and not pa.types.is_integer(column.type):
        raise InputError(f"{path}: column '{name}' is {column.type}, expected int64 or text")
    if column.null_count:
        raise InputError(f"{path}: column '{name}' has {column.null_count} nulls")
    if text:
        return book.numbers(
            name, str(path), pa.concat_arrays(column.cast(pa.string()).chunks or [pa.array([], pa.string())])
        )
    try:
        return book.numbers(name, str(path), column.cast(pa.int64()).to_numpy())
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: column '{name}' has values beyond int64 ({error})") from error


def vectors(path: Path, table: pa.Table, key: str) -> np.ndarray:
    """Column ``embedding``, lists of float16, float32 or float64 of one length, as an array (rows, dim).

    key: the id column, for messages. Raises InputError for other types, nulls and rows of another length.
    """
    column = table["embedding"]
    if not _is_list(column.type) or not pa.types.is_floating(column.type.value_type):
        raise InputError(f"{path}: column 'embedding' is {column.type}, expected lists of float16, float32 or float64")
    if column.null_count:
        raise InputError(f"{path}: column 'embedding' has {column.null_count} nulls")
    if not len(table):
        raise InputError(f"{path}: no rows")
    if not pa.types.is_fixed_size_list(column.type):
        _one_length(path, table, key)
    flat = [chunk.flatten() for chunk in column.chunks]
    nulls = sum(chunk.null_count for chunk in flat)
    if nulls:
        raise InputError(f"{path}: column 'embedding' has {nulls} nulls inside its lists")
    joined = np.concatenate([chunk.to_numpy(zero_copy_only=False) for chunk in flat])
    return joined.reshape(len(table), len(joined) // len(table))


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _one_length(path: Path, table: pa.Table, key: str) -> None:
    lengths = pc.list_value_length(table["embedding"]).to_numpy()
    other = np.flatnonzero(lengths != lengths[0])
    if len(other):
        row = other[0]
        raise InputError(
            f"{path}: {len(other)} vectors of another length than the first, which has {lengths[0]} values: "
            f"{key} {table[key][row].as_py()} has {lengths[row]}"
        )
