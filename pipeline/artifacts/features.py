"""data/extract/<dataset>/<features>/: features.npy, index.parquet and meta.json.

features.npy is (rows, D) or (rows, R, D), float16 or float32, read through a memory map. index.parquet says which
row belongs to which image; status is ``ok``, anything else leaves the image out with the reason in detail.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.artifacts import _table
from pipeline.artifacts._files import read_json, require, sha256, whole_file, write_json
from pipeline.errors import InputError, IntegrityError

ARRAY, INDEX, META = "features.npy", "index.parquet", "meta.json"
_CHECK_ROWS = 4096
SCHEMA = pa.schema(
    [
        _table.field("image_id", pa.int64(), "unique"),
        _table.field("row", pa.int64(), "row of features.npy; null unless status is ok", nullable=True),
        _table.field("status", pa.string(), "ok, or why the image has no features"),
        _table.field("detail", pa.string(), "empty when ok"),
    ],
    metadata={"artefact": "features", "version": "1"},
)


@dataclass(frozen=True)
class Features:
    """array: memory map (rows, D) or (rows, R, D); image_ids and rows: int64, parallel, images with status ok."""

    array: np.ndarray
    image_ids: np.ndarray
    rows: np.ndarray
    meta: dict

    def rows_of(self, image_ids: np.ndarray) -> np.ndarray:
        """The row of each image. Raises InputError when one has no features."""
        order = np.argsort(self.image_ids)
        found = np.searchsorted(self.image_ids, image_ids, sorter=order).clip(max=len(order) - 1)
        rows = order[found]
        wrong = image_ids[self.image_ids[rows] != image_ids]
        if len(wrong):
            raise InputError(f"{len(wrong)} images have no features, the first is image_id {wrong[0]}")
        return self.rows[rows]


def write(folder: Path, array: np.ndarray, index: pa.Table, meta: dict) -> None:
    """``write_blocks`` for an array that is in memory."""
    write_blocks(folder, [array], len(array), index, meta)


def write_blocks(folder: Path, blocks: Iterable[np.ndarray], count: int, index: pa.Table, meta: dict) -> None:
    """Write the three files from blocks of rows in order; only one block at a time is in memory.

    count: rows in all blocks together. meta gains the array's shape and sha256 and is written last: an array without
    the digest that belongs to it is refused by ``read``. Raises InputError on NaN; then features.npy is what it was.
    """
    path = folder / ARRAY
    # Appended, not written through a memory map: a full disk is then an error and not a SIGBUS.
    with whole_file(path) as temporary, temporary.open("wb") as file:
        shape = append_rows(file, blocks, count, str(path))
    _table.write(folder / INDEX, index, SCHEMA, {})
    write_json(folder / META, {**meta, "shape": shape, "sha256": sha256(path)})


def append_rows(file: BinaryIO, blocks: Iterable[np.ndarray], count: int, where: str) -> list[int]:
    """Write the ``.npy`` file of ``count`` rows that come in blocks; its shape. Raises InputError on NaN."""
    shape, written = None, 0
    for block in blocks:
        if shape is None:
            shape = (count, *block.shape[1:])
            header = {
                "descr": np.lib.format.dtype_to_descr(block.dtype),
                "fortran_order": False,
                "shape": shape,
            }
            np.lib.format.write_array_header_1_0(file, header)
        check_finite(block, where, written)
        file.write(np.ascontiguousarray(block).data)
        written += len(block)
    if shape is None or written != count:
        raise ValueError(f"{where}: {written} rows in the blocks, {count} were announced")
    return list(shape)


def read(folder: Path, verify: bool = True) -> Features:
    """Open without loading. ``verify`` compares the array with the digest in meta.json (IntegrityError)."""
    advice = "vse-pipe extract"
    meta = read_json(require(folder / META, advice))
    path = require(folder / ARRAY, advice)
    if not isinstance(meta.get("sha256"), str):
        raise IntegrityError(f"{folder / META}: holds no digest of {ARRAY}; extract it again")
    array = open_array(path)
    if verify and sha256(path) != meta["sha256"]:
        raise IntegrityError(f"{path}: content does not match the digest in {META}; extract it again")
    index = _table.read(folder / INDEX, SCHEMA, advice)
    index = index.filter(pc.equal(index["status"], "ok"))
    rows = index["row"].to_numpy()
    if len(rows) and (rows.min() < 0 or rows.max() >= len(array)):
        raise InputError(f"{folder / INDEX}: rows up to {rows.max()}, but {ARRAY} has {len(array)}")
    return Features(array, index["image_id"].to_numpy(), rows.astype(np.int64), meta)


def open_array(path: Path) -> np.ndarray:
    """The memory map of a ``.npy`` file. Raises IntegrityError when it is none, or not whole."""
    try:
        array = np.lib.format.open_memmap(path, mode="r")
        if array.ndim == 0:
            raise ValueError("it holds no rows")
    except (ValueError, TypeError, EOFError, OverflowError, MemoryError) as error:
        raise IntegrityError(f"{path}: not a whole .npy file ({error}); extract it again") from error
    return array


def check_finite(array: np.ndarray, where: str, first: int = 0) -> None:
    """Raises InputError with the number of bad rows and the first of them, counted from ``first``; reads block by block."""
    bad: list[int] = []
    for start in range(0, len(array), _CHECK_ROWS):
        block = array[start : start + _CHECK_ROWS]
        finite = np.isfinite(block).reshape(len(block), -1).all(axis=1)
        bad.extend((np.flatnonzero(~finite) + start).tolist())
    if bad:
        raise InputError(
            f"{where}: {len(bad)} rows hold NaN or infinite values, the first is row {first + bad[0]}"
        )
