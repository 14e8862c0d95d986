"""Columns and footers of Parquet files, as numpy arrays and without pandas, whose import takes half a second."""

from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pyarrow as pa

from vse_pipe.core import parquet
from vse_pipe.core.damage import Damage
from vse_pipe.core.errors import IntegrityError, MissingResource

ALL = "all"


def numbers(column: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """Without a copy, and without pandas: ``to_numpy`` imports it, which takes half a second."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.from_dlpack(whole)


def rows(splits: pa.ChunkedArray, wanted: str) -> np.ndarray | slice:
    """Rows of a split; a slice, which copies nothing, where these are all."""
    if wanted == ALL:
        return slice(None)
    coded = splits.combine_chunks().dictionary_encode()
    names = coded.dictionary.to_pylist()
    if names == [wanted]:
        return slice(None)
    kept = np.from_dlpack(coded.indices) == (names.index(wanted) if wanted in names else -1)
    return np.flatnonzero(kept)


def footer(path: Path, run: str) -> dict[str, str]:
    """Of an embedding file. Raises MissingResource naming the command that makes it."""
    if not path.is_file():
        raise MissingResource(f"{path} does not exist; make it with `vse-pipe embed --run {run}`")
    with opened(path) as file:
        found = file.schema.metadata or {}
    return {key.decode(): value.decode() for key, value in found.items()}


def opened(path: Path) -> AbstractContextManager[parquet.Parquet]:
    """Raises IntegrityError where the file is damaged."""
    return parquet.opened(path, Damage(IntegrityError, "remove it and embed the run again"))
