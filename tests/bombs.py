"""Small Parquet files that take gigabytes once they are decoded, and a child in which to open them."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.prepare._data import picture


def repeated_caption(path: Path, length: int = 2**20, rows: int = 5000) -> Path:
    """One long caption in the dictionary, and every row its number."""
    return captioned(path, _repeated(pa.array(["a" * length]), rows))


def shared_beginnings(path: Path, length: int = 2**20, rows: int = 5000) -> Path:
    """Each caption is the one before it, and nothing more."""
    kind = {"caption": "DELTA_BYTE_ARRAY", "image": "PLAIN"}
    return captioned(path, pa.array(["a" * length] * rows), use_dictionary=False, column_encoding=kind)


def long_captions(path: Path, length: int = 50_000_000, rows: int = 40) -> Path:
    """Few captions, of a letter that packs well."""
    return captioned(path, pa.array(["a" * length] * rows, pa.large_string()), use_dictionary=False)


def repeated_picture(path: Path, length: int = 2**20, rows: int = 5000) -> Path:
    """One picture in the dictionary, its end full of zeros, and every row its number."""
    images = _repeated(pa.array([picture(0) + bytes(length)], pa.binary()), rows)
    return _written(path, pa.table({"image": images, "caption": [f"caption {row}" for row in range(rows)]}))


def zeros(
    path: Path,
    key: str = "image_id",
    rows: int = 4000,
    dim: int = 200_000,
    kind: pa.DataType | None = None,
    step: int = 100,
    **options,
) -> Path:
    """Vectors of nothing but zeros: each page says so in a few bytes. step: rows of a row group."""
    schema = pa.schema([pa.field(key, pa.int64()), pa.field("embedding", kind or pa.list_(pa.float32()))])
    options = {"compression": "zstd", "data_page_size": 2**30, "write_statistics": False, **options}
    with pq.ParquetWriter(path, schema, **options) as file:
        for start in range(0, rows, step):
            ids = np.arange(start, min(start + step, rows))
            values = pa.array(np.zeros(len(ids) * dim, np.float32))
            if kind is None:
                lists = pa.ListArray.from_arrays(np.arange(0, len(values) + 1, dim, dtype=np.int32), values)
            else:
                lists = pa.FixedSizeListArray.from_arrays(values, dim)
            file.write_table(pa.table([ids, lists], schema=schema), row_group_size=step)
    return path


def _repeated(value: pa.Array, rows: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), value)


def captioned(path: Path, captions: pa.Array | list, **options) -> Path:
    """A picture a row."""
    images = pa.array([picture(0)] * len(captions), pa.binary())
    return _written(path, pa.table({"image": images, "caption": captions}), **options)


def _written(path: Path, table: pa.Table, **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd", store_schema=False, **options)
    return path


def in_child(work: Callable[[], object], most: int = 12 * 2**30) -> tuple[str, float]:
    """What ``work`` ends with in a child process, "TypeOfError: message" or "done", and the MiB it took beyond the parent's.

    most: bytes of address space that the child may grow by, so that a test that fails does not take the machine along.
    """
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receiving)
        before = _peak()
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + most, -1))
        try:
            work()
            ended = "done"
        except BaseException as error:
            ended = f"{type(error).__name__}: {error}"
        os.write(sending, json.dumps([ended[:1000], _peak() - before]).encode())
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return tuple(json.loads(answer)) if answer else ("the child was killed", float("inf"))


_MEASURED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
sys.exit(done.returncode)
"""


def command(arguments: list, folder: Path) -> tuple[int, str, float]:
    """Exit status, stderr and peak of memory in MiB of a command that is run in ``folder``. It starts from a small
    process: a child's peak begins with the size of its parent."""
    measured = [sys.executable, "-c", _MEASURED, *map(str, arguments)]
    done = subprocess.run(measured, cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stderr, float(done.stdout)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
