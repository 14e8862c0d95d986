"""Columns and footers of Parquet files, as numpy arrays and without pandas, whose import takes half a second."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core.errors import IntegrityError, MissingResource

ALL = "all"
Found = TypeVar("Found")


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
    found = opened(path, lambda file: file.schema_arrow.metadata or {})
    return {key.decode(): value.decode() for key, value in found.items()}


def opened(path: Path, read: Callable[[pq.ParquetFile], Found]) -> Found:
    """What ``read`` makes of the file. Raises IntegrityError where it is damaged."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            return read(file)
    except (OSError, pa.ArrowException, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise IntegrityError(f"{path}: damaged Parquet file ({reason}); remove it and embed the run again") from error
