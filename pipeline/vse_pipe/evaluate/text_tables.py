"""Tables of text: Parquet, CSV, or lines split at white space; pairs of ids."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Float

from vse_pipe.core import memory
from vse_pipe.core.errors import InputError
from vse_pipe.ranking.files import existing, read_parquet

PAIR = ("image_id", "caption_id")
# The second column of TREC qrels has no meaning there; ours says so that the queries, in the first
# column, are images.
IMAGE_QUERIES = "image_to_text"
_OF_IMAGES = {"caption_id": "image_id", "image_id": "caption_id"}
_SHOWN = 40


def read(
    path: Path,
    columns: Sequence[str],
    optional: Sequence[str] = (),
    bare: Sequence[Sequence[str]] = (),
    headed: bool = True,
) -> pd.DataFrame:
    """A table of text. bare: the columns of a text file without a header, chosen by their number.
    headed: a first line that has one of the names is a header.

    Raises MissingResource for a missing file, InputError for missing columns, empty or missing
    cells, or a file beyond the memory limit, IntegrityError for a damaged Parquet file."""
    existing(path)
    is_parquet = path.suffix == ".parquet"
    table = _parquet(path, columns, optional) if is_parquet else _text(path)
    if incomplete := np.flatnonzero((table.isna() | (table == "")).any(axis=1)).tolist():
        raise InputError(f"{path}: row {incomplete[0] + 1} has fewer than {table.shape[1]} fields, or an empty one")
    if not is_parquet and headed and set(table.iloc[0]) & {*columns, *optional}:
        table = table[1:].set_axis(table.iloc[0].tolist(), axis=1).reset_index(drop=True)
        if table.columns.has_duplicates:
            raise InputError(f"{path}: its header names a column twice")
    elif not is_parquet:
        widths = {len(names): names for names in bare}
        table = table.set_axis(widths.get(table.shape[1], map(str, table)), axis=1)
    if table.empty or not set(columns) <= set(table):
        forms = [f"a header with {', '.join(columns)}"] if headed else []
        forms += [f"lines of {' '.join(names)}" for names in bare]
        raise InputError(f"{path}: {len(table)} rows of {', '.join(table)}; expected {', or '.join(forms)}")
    return table


def _parquet(path: Path, columns: Sequence[str], optional: Sequence[str]) -> pd.DataFrame:
    table = read_parquet(path, columns, optional)
    try:
        texts = table.cast(pa.schema([(name, pa.string()) for name in table.column_names]))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"{path}: expected columns of text or numbers: {error}") from error
    return texts.to_pandas()


def _text(path: Path) -> pd.DataFrame:
    """All lines, columns by number."""
    memory.require_text(path)
    split = {"sep": ","} if path.suffix == ".csv" else {"sep": r"\s+", "quoting": csv.QUOTE_NONE}
    try:
        return pd.read_csv(path, header=None, dtype=object, keep_default_na=False, encoding="utf-8-sig", **split)
    except (UnicodeDecodeError, pd.errors.EmptyDataError, pd.errors.ParserError) as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from error


def numbers(path: Path, table: pd.DataFrame, name: str) -> Float[np.ndarray, " rows"]:
    """A column as float64. Raises InputError for a cell that is not a finite number."""
    values = pd.to_numeric(table[name], errors="coerce").to_numpy(dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        cell = str(table[name].iloc[wrong[0]])[:_SHOWN]
        raise InputError(f"{path}: row {wrong[0] + 1}: {name} {cell!r} is not a finite number")
    return values


def read_pairs(path: Path, grade: str) -> pd.DataFrame:
    """Judged pairs: columns image_id, caption_id and optionally ``grade``; or TREC lines,
    ``caption_id 0 image_id grade``, with ``IMAGE_QUERIES`` for 0 the image first."""
    table = read(path, PAIR, [grade], [("caption_id", "iteration", "image_id", grade)])
    if "iteration" in table and table["iteration"].iloc[0] == IMAGE_QUERIES:
        return table.rename(columns=_OF_IMAGES)
    return table
