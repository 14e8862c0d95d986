"""Files that somebody cuts or changes while they are read through a memory map."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from vse_pipe.core import memory, tables
from vse_pipe.core.errors import IntegrityError
from vse_pipe.core.locks import claim

# Read in the main thread, and by threads of torch's own that Python knows nothing of.
READ = {
    "numpy": "array[::-1].sum()",
    "gathered": "np.asarray(array[np.arange(99999, 0, -7)])",
    "torch": "import torch; torch.set_num_threads(2); torch.from_numpy(array).double().sum()",
}
CUT = """
import os, sys, warnings
from pathlib import Path
import numpy as np
from vse_pipe.core import mapped
warnings.simplefilter("ignore")
path = Path(sys.argv[1])
array = np.load(path, mmap_mode="r")
mapped.guard(path)
os.truncate(path, 4096)
{read}
print("went on")
"""


@pytest.fixture
def path(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((100_000, 16), np.float32))
    return tmp_path / "a.npy"


@pytest.mark.parametrize("read", READ.values(), ids=list(READ))
def test_a_file_that_is_cut_while_it_is_read_is_one_line(path, read):
    done = subprocess.run([sys.executable, "-c", CUT.format(read=read), path], capture_output=True, text=True)
    said = f"error: {path}: changed while it was read; make it again, then run the same command again\n"
    assert (done.returncode, done.stdout, done.stderr) == (IntegrityError.exit_status, "", said)


def test_what_is_changed_in_place_is_refused_and_what_is_replaced_is_not(path):
    array = np.load(path, mmap_mode="r")
    memory.guard(path)
    memory.require_unchanged(array)
    memory.require_unchanged(np.zeros(3))
    other = path.with_name("b.npy")
    np.save(other, np.ones(3))
    other.replace(path)
    memory.require_unchanged(array)
    memory.guard(path)
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    with pytest.raises(IntegrityError, match=r"a\.npy: changed while it was read"):
        memory.require_unchanged(array)


SCHEMA = pa.schema([tables.field("id", pa.int64(), "a number")])
FOUND = r"ids\.parquet: written anew while it was read; run the same command again"


def write(path: Path, *ids: int) -> None:
    tables.write(path, pa.table({"id": list(ids)}), SCHEMA, {})


@pytest.mark.parametrize("again", [tables.read, lambda *where: list(tables.scan(*where))], ids=["read", "scan"])
@pytest.mark.parametrize("ids", [(1, 2), (1, 2, 3)], ids=["the same", "another"])
def test_what_is_written_anew_between_two_readings_is_refused(tmp_path: Path, ids: tuple, again) -> None:
    path = tmp_path / "ids.parquet"
    write(path, 1, 2)
    with claim(tmp_path / "out"):
        for _ in range(2):
            assert len(tables.read(path, SCHEMA)) == 2
        write(path, *ids)
        with pytest.raises(IntegrityError, match=FOUND):
            again(path, SCHEMA)
    with claim(tmp_path / "out"):  # the same command again
        assert len(tables.read(path, SCHEMA)) == len(ids)


def test_a_file_that_is_changed_in_place_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ids.parquet"
    write(path, 1, 2)
    with memory.unchanged_inputs(tmp_path / "out"):
        memory.unchanged_path(path)
        os.utime(path, ns=(0, 0))
        with pytest.raises(IntegrityError, match=FOUND):
            memory.unchanged_path(path)


def test_what_is_written_oneself_or_read_without_a_claim_may_change(tmp_path: Path) -> None:
    own = tmp_path / "out" / "ids.parquet"
    own.parent.mkdir()
    with claim(own.parent):
        for count in (1, 2):
            write(own, *range(count))
            assert len(tables.read(own, SCHEMA)) == count
    for count in (1, 2):
        write(tmp_path / "ids.parquet", *range(count))
        assert len(tables.read(tmp_path / "ids.parquet", SCHEMA)) == count
