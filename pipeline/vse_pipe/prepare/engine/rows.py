"""Tables that need not fit in memory while a format fills them: their rows go to the disk in blocks, and are read from there."""

import mmap
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pyarrow as pa

from vse_pipe.core import memory

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
        self._before = memory.taken()

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
        memory.back_to(self._before)

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
            memory.back_to(self._before)


def blocks(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Consecutive rows of ``table``, as it lies on the disk, and the number of the first."""
    start = 0
    for batch in table.to_batches(max_chunksize=BLOCK):
        yield start, pa.Table.from_batches([batch])
        start += len(batch)
