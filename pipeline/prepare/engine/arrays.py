"""Precomputed features: open a ``.npy`` without loading or trusting it, and digest its rows in one pass."""

import hashlib
import math
import warnings
from pathlib import Path

import numpy as np

from pipeline.core.console import track
from pipeline.core.errors import InputError

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_BLOCK_BYTES = 64 * 2**20


def open_array(path: Path) -> np.ndarray:
    """Memory map (rows, D) or (rows, R, D) of float16, float32 or float64.

    Raises InputError: not a .npy file, pickled objects, another type or shape, no rows, or not as many bytes as the
    header promises.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            # Files written by Python 2 have "29000L" in the header, which numpy reads with a warning.
            warnings.simplefilter("ignore", UserWarning)
            shape, fortran, dtype = _HEADERS[np.lib.format.read_magic(file)](file)
            start = file.tell()
    except (ValueError, KeyError) as error:
        raise InputError(f"{path}: not a .npy file of numbers ({error})") from error
    if dtype.kind != "f" or dtype.itemsize > 8:
        raise InputError(f"{path}: holds {dtype}, expected float16, float32 or float64")
    if len(shape) not in (2, 3) or 0 in shape:
        raise InputError(f"{path}: shape {shape}, expected (rows, D) or (rows, regions, D), none of them 0")
    expected, found = start + math.prod(shape) * dtype.itemsize, path.stat().st_size
    if found != expected:
        raise InputError(
            f"{path}: {found} bytes, but its header promises {expected} (shape {shape}, {dtype}); copy it again"
        )
    return np.memmap(path, dtype, "r", start, shape, "F" if fortran else "C")


def row_digests(array: np.ndarray, path: Path) -> tuple[np.ndarray, dict[int, str]]:
    """sha256 of every row's bytes as stored: uint8 (rows, 32); by number the rows with values that are not finite, as
    ``Source.broken`` names them.

    One pass over the file, block by block, because it may be far larger than the memory.
    """
    row_bytes = math.prod(array.shape[1:]) * array.itemsize
    step = max(1, _BLOCK_BYTES // row_bytes)
    starts = range(0, len(array), step)
    digests: list[bytes] = []
    broken: dict[int, str] = {}
    for start in track(starts, len(starts), path.name):
        block = np.ascontiguousarray(array[start : start + step])
        finite = np.isfinite(block).reshape(len(block), -1).all(axis=1)
        for row in (np.flatnonzero(~finite) + start).tolist():
            broken[row] = f"{path.name}#{row} holds NaN or infinite values"
        digests.extend(hashlib.sha256(row).digest() for row in block)
    return np.frombuffer(b"".join(digests), np.uint8).reshape(len(array), 32), broken
