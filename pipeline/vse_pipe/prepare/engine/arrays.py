"""Precomputed features: open a ``.npy`` without loading or trusting it, and digest its rows in one pass."""

import hashlib
import math
from pathlib import Path

import numpy as np

from vse_pipe.core import arrays, memory
from vse_pipe.core.console import track
from vse_pipe.core.errors import Damage, InputError, MissingResource

_BLOCK_BYTES = 64 * 2**20


def open_array(path: Path) -> np.ndarray:
    """Memory map (rows, D) or (rows, R, D) of float16, float32 or float64.

    Raises MissingResource without the file; InputError: not a .npy file, pickled objects, another type or shape, no rows, or not as many bytes as the
    header promises.
    """
    if not path.is_file():
        raise MissingResource(f"{path}: no such file")
    array = arrays.open_npy(path, Damage(InputError, "copy it again"))
    if array.dtype.kind != "f" or array.dtype.itemsize > 8:
        raise InputError(f"{path}: holds {array.dtype}, expected float16, float32 or float64")
    if array.ndim not in (2, 3) or 0 in array.shape:
        raise InputError(f"{path}: shape {array.shape}, expected (rows, D) or (rows, regions, D), none of them 0")
    return array


def row_digests(array: np.ndarray, path: Path) -> tuple[np.ndarray, dict[int, str]]:
    """sha256 of every row's bytes as stored: uint8 (rows, 32); by number the rows with values that are not finite, as
    ``Source.broken`` names them.

    One pass over the file, block by block, because it may be far larger than the memory.
    """
    row_bytes = math.prod(array.shape[1:]) * array.itemsize
    memory.require(f"{path}: a row", row_bytes)
    step = max(1, _BLOCK_BYTES // row_bytes)
    starts = range(0, len(array), step)
    digests = np.empty((len(array), 32), np.uint8)
    broken: dict[int, str] = {}
    for start in track(starts, len(starts), path.name):
        block = np.ascontiguousarray(array[start : start + step])
        finite = np.isfinite(block).reshape(len(block), -1).all(axis=1)
        for row in (np.flatnonzero(~finite) + start).tolist():
            broken[row] = f"{path.name}#{row} holds NaN or infinite values"
        found = b"".join(hashlib.sha256(row).digest() for row in block)
        digests[start : start + len(block)] = np.frombuffer(found, np.uint8).reshape(-1, 32)
    return digests, broken
