"""Small tables that people and other programs write: Parquet, CSV, or text split at white space. Ids in them are text."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Float

from vse_pipe.core import memory
from vse_pipe.core.errors import InputError
from vse_pipe.evaluate.external import parquet
from vse_pipe.evaluate.external.given import given

_SHOWN = 40


def read(
    path: Path,
    columns: Sequence[str],
    optional: Sequence[str] = (),
    bare: Sequence[Sequence[str]] = (),
    headed: bool = True,
) -> pd.DataFrame:
    """Columns of text. bare: what the columns of a text without a header are, by their number; headed: a first line with one of
    the names is a header.

    Raises MissingResource for a file that is not there, InputError for one without these columns, with empty or missing cells,
    or larger than may be read, IntegrityError for a damaged Parquet file.
    """
    if given(path).is_dir():
        raise InputError(f"{path}: a folder, expected a file")
    if path.suffix == ".parquet":
        return _parquet(path, columns, optional)
    found = _text(path, [*columns, *optional] if headed else [], bare)
    absent = [name for name in columns if name not in found]
    if absent or found.empty:
        what = (
            "no rows" if not absent else f"column '{absent[0]}' is missing" if headed else f"{found.shape[1]} columns"
        )
        expected = [f"a header with {', '.join(columns)}"] if headed else []
        expected += [f"lines of {' '.join(names)}" for names in bare]
        raise InputError(f"{path}: {what}; expected {', or '.join(expected)}")
    return found


def _parquet(path: Path, columns: Sequence[str], optional: Sequence[str]) -> pd.DataFrame:
    table = parquet.read(path, columns, optional)
    for name in table.column_names:
        kind = table[name].type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or _is_text(kind)) or table[name].null_count:
            raise InputError(
                f"{path}: column '{name}' is {kind} with {table[name].null_count} nulls, expected text or numbers"
            )
    if not len(table):
        raise InputError(f"{path}: no rows")
    return pd.DataFrame({name: table[name].cast(pa.string()).to_numpy() for name in table.column_names}, dtype=object)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _text(path: Path, names: Sequence[str], bare: Sequence[Sequence[str]]) -> pd.DataFrame:
    """A header is a first line that has one of ``names``."""
    memory.require_text(path)
    split = {"sep": ","} if path.suffix == ".csv" else {"sep": r"\s+", "quoting": csv.QUOTE_NONE}
    try:
        found = pd.read_csv(path, header=None, dtype=object, keep_default_na=False, encoding="utf-8-sig", **split)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text") from error
    except pd.errors.EmptyDataError as error:
        raise InputError(f"{path}: the file is empty") from error
    except pd.errors.ParserError as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from error
    if gone := np.flatnonzero((found.isna() | (found == "")).any(axis=1)).tolist():
        raise InputError(f"{path}: row {gone[0] + 1} has fewer than {found.shape[1]} fields, or an empty one")
    if set(found.iloc[0]) & set(names):
        if len(set(found.iloc[0])) < found.shape[1]:
            raise InputError(f"{path}: its header names a column twice")
        return found.iloc[1:].set_axis(found.iloc[0].tolist(), axis=1).reset_index(drop=True)
    known = next((columns for columns in bare if len(columns) == found.shape[1]), None)
    return found.set_axis(known or list(map(str, found.columns)), axis=1)


def numbers(path: Path, table: pd.DataFrame, name: str) -> Float[np.ndarray, " rows"]:
    """A column as float64. Raises InputError for a cell that is no finite number."""
    found = pd.to_numeric(table[name], errors="coerce").to_numpy(dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(found))
    if len(wrong):
        cell = str(table[name].iloc[wrong[0]])[:_SHOWN]
        raise InputError(f"{path}: row {wrong[0] + 1}: {name} {cell!r} is not a finite number")
    return found
