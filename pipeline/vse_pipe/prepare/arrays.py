"""Data sets of precomputed features: an array and the captions of each split."""

import hashlib
import math
from pathlib import Path

import numpy as np
import pyarrow as pa

from vse_pipe.core import arrays, memory
from vse_pipe.core.console import track
from vse_pipe.core.errors import InputError, MissingResource
from vse_pipe.prepare.source import Source, caption_table, image_table, split_of

_BLOCK_BYTES = 64 * 2**20


def row_digests(path: Path) -> tuple[np.ndarray, dict[int, str]]:
    """sha256 of the stored bytes of every row, uint8 (rows, 32), and lines of ``Source.broken`` for
    rows with values that are not finite, by number. The file is read once in blocks, because it may
    be larger than the memory.

    Raises as ``_opened``."""
    array = _opened(path)
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
        joined = b"".join(hashlib.sha256(row).digest() for row in block)
        digests[start : start + len(block)] = np.frombuffer(joined, np.uint8).reshape(-1, 32)
    return digests, broken


def _opened(path: Path) -> np.ndarray:
    """Memory map (rows, D) or (rows, R, D) of float16, float32 or float64.

    Raises MissingResource without the file; InputError for a file that is not .npy, pickled
    objects, another type or shape, no rows, or another number of bytes than in the header."""
    if not path.is_file():
        raise MissingResource(f"{path}: no such file")
    array = arrays.open_npy(path, InputError)
    if array.dtype.kind != "f" or array.dtype.itemsize > 8:
        raise InputError(f"{path}: holds {array.dtype}, expected float16, float32 or float64")
    if array.ndim not in (2, 3) or 0 in array.shape:
        raise InputError(f"{path}: shape {array.shape}, expected (rows, D) or (rows, regions, D)")
    return array


class Splits:
    """The tables of a data set, filled split by split; ids are running numbers."""

    def __init__(self) -> None:
        self._images: list[pa.Table] = []
        self._captions: list[pa.Table] = []
        self._broken: list[str] = []
        self._ids, self._numbers = 0, 0

    def add(self, prefix: str, digests: np.ndarray, texts: list[str], broken: dict[int, str], per_image: int) -> None:
        """Add the images and captions of a split; every image has the same number of rows.

        prefix: of the files of features; digests, broken: of ``row_digests``; per_image: captions
        of an image."""
        split, count = split_of(prefix.removesuffix("all"), prefix), len(texts) // per_image
        repeated = len(digests) // count
        rows, no_size = np.arange(count) * repeated, np.zeros(count, np.int32)
        hexes = [bytes(digest).hex() for digest in digests[rows]]
        files = [f"{prefix}_ims.npy#{row}" for row in rows.tolist()]
        ids, numbers = self._ids + np.arange(count), self._numbers + np.arange(len(texts))
        self._images.append(image_table(ids, files, pa.repeat(split, count), no_size, no_size, hexes))
        owners, splits = np.repeat(ids, per_image), pa.repeat(split, len(texts))
        self._captions.append(caption_table(numbers, owners, texts, splits))
        self._ids += count
        self._numbers += len(texts)
        self._broken += [line for row, line in broken.items() if row % repeated == 0]

    def source(self, root: Path) -> Source:
        tables = pa.concat_tables(self._images), pa.concat_tables(self._captions)
        return Source(*tables, str(root), self._broken)
