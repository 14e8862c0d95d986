"""Data sets of precomputed features: an array and the captions of each split."""

import hashlib
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from vse_pipe.artifacts import captions, images
from vse_pipe.core import arrays, memory
from vse_pipe.core.console import track
from vse_pipe.core.errors import InputError, MissingResource
from vse_pipe.prepare.assembly import BLOCK, Rows, blocks
from vse_pipe.prepare.source import Source, split_of

_BLOCK_BYTES = 64 * 2**20
_TEXT = pa.schema([captions.SCHEMA.field("text")])


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


def texts(folder: Path, lines: Iterable[str]) -> pa.Table:
    """The captions of a split on the disk, as a table with the column ``text``."""
    rows = Rows(folder, _TEXT)
    for line in lines:
        rows.add(line)
    return rows.table()


class Splits:
    """The tables of a data set, filled split by split; caption_id is a running number."""

    def __init__(self, folder: Path) -> None:
        self._images, self._captions = Rows(folder, images.SCHEMA), Rows(folder, captions.SCHEMA)
        self._broken: list[str] = []

    def add(self, prefix: str, ids: np.ndarray, digests: np.ndarray, texts: pa.Table, broken: dict[int, str]) -> None:
        """Add the images and captions of a split; every image has the same number of rows and of
        captions.

        prefix: of the files of features; ids: int64 (n,); texts: of ``texts``; digests, broken: of
        ``row_digests``."""
        split = split_of(prefix.removesuffix("all"), prefix)
        repeated, per_image = len(digests) // len(ids), len(texts) // len(ids)
        for start in range(0, len(ids), BLOCK):
            part = ids[start : start + BLOCK]
            rows = np.arange(start, start + len(part)) * repeated
            hexes = [bytes(digest).hex() for digest in digests[rows]]
            files = [f"{prefix}_ims.npy#{row}" for row in rows.tolist()]
            no_size = np.zeros(len(part), np.int32)
            self._images.extend(part, files, pa.repeat(split, len(part)), no_size, no_size, hexes)
        before = self._captions.count
        for start, block in blocks(texts):
            numbers = np.arange(start, start + len(block))
            owners = ids[numbers // per_image]
            self._captions.extend(before + numbers, owners, block["text"], pa.repeat(split, len(block)))
        self._broken += [line for row, line in broken.items() if row % repeated == 0]

    def source(self, root: Path) -> Source:
        return Source(self._images.table(), self._captions.table(), str(root), self._broken)
