"""Tables that need not fit in memory while a format fills them: their rows go to the disk in blocks, and are read from there."""

import hashlib
import math
import mmap
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import pyarrow as pa

from vse_pipe.artifacts import captions, images
from vse_pipe.core import arrays, memory
from vse_pipe.core.console import track
from vse_pipe.core.errors import Damage, InputError, MissingResource
from vse_pipe.prepare.source import Source

# Rows that are kept until they are written: some MB of captions.
BLOCK = 2**14


class Rows:
    """The rows of one table, written to a file without a name in ``folder`` as they come. What ``memory.take`` counted for them counts no longer
    once they are there."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.count, self._schema = 0, schema
        folder.mkdir(parents=True, exist_ok=True)
        self._kept = TemporaryFile(dir=folder)  # noqa: SIM115 (without a name: gone when it is closed)
        weakref.finalize(self, self._kept.close)
        self._file = pa.ipc.new_file(self._kept, schema)
        self._waiting: list[tuple[Any, ...]] = []
        self._before = memory.reserved()

    def add(self, *row: Any) -> None:
        """One row, its values in the order of the schema."""
        self._waiting.append(row)
        self.count += 1
        if len(self._waiting) >= BLOCK:
            self._write()

    def beside(self, size: int) -> None:
        """So many bytes were taken that stay in memory when rows go to the disk."""
        self._before += size

    def extend(self, *columns: Sequence[Any] | pa.Array | pa.ChunkedArray) -> None:
        """Several rows, as columns."""
        self._write()
        table = pa.table(list(columns), schema=self._schema)
        self.count += table.num_rows
        self._file.write_table(table)
        memory.release_to(self._before)

    def table(self) -> pa.Table:
        """All of them, mapped; no more can be added."""
        self._write()
        self._file.close()
        self._kept.flush()
        content = mmap.mmap(self._kept.fileno(), 0, access=mmap.ACCESS_READ)
        return pa.ipc.open_file(pa.py_buffer(content)).read_all()

    def _write(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._file.write_table(
                pa.table([list(column) for column in zip(*waiting, strict=True)], schema=self._schema)
            )
            memory.release_to(self._before)


def blocks(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Consecutive rows of ``table``, as it lies on the disk, and the number of the first."""
    start = 0
    for batch in table.to_batches(max_chunksize=BLOCK):
        yield start, pa.Table.from_batches([batch])
        start += len(batch)


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


_TEXT = pa.schema([captions.SCHEMA.field("text")])


def texts(folder: Path, found: Iterable[str]) -> pa.Table:
    """The captions of a split, one column, on the disk."""
    rows = Rows(folder, _TEXT)
    for text in found:
        rows.add(text)
    return rows.table()


class Splits:
    """The tables of a data set, filled split by split; caption_id is a running number."""

    def __init__(self, folder: Path) -> None:
        self._images, self._captions = Rows(folder, images.SCHEMA), Rows(folder, captions.SCHEMA)
        self._broken: list[str] = []

    def add(
        self, prefix: str, split: str, ids: np.ndarray, digests: np.ndarray, texts: pa.Table, broken: Sequence[str]
    ) -> None:
        """prefix: of the files of features; ids: int64 (n,); digests: uint8 (rows, 32), as many rows for each image as for any;
        texts: as of ``texts``, as many for each image; broken: as of ``Source``."""
        repeated, each = len(digests) // len(ids), len(texts) // len(ids)
        for start in range(0, len(ids), BLOCK):
            part = ids[start : start + BLOCK]
            rows = np.arange(start, start + len(part)) * repeated
            hexes = [bytes(one).hex() for one in digests[rows]]
            files, nothing = [f"{prefix}_ims.npy#{row}" for row in rows.tolist()], np.zeros(len(part), np.int32)
            self._images.extend(part, files, pa.repeat(split, len(part)), nothing, nothing, hexes)
        before = self._captions.count
        for start, block in blocks(texts):
            places = np.arange(start, start + len(block))
            self._captions.extend(before + places, ids[places // each], block["text"], pa.repeat(split, len(block)))
        self._broken += broken

    def source(self, root: Path) -> Source:
        return Source(self._images.table(), self._captions.table(), str(root), self._broken)
