"""One writer an output, and files that stay the same while they are read."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from vse_pipe.core import memory, tables
from vse_pipe.core.errors import IntegrityError, LockedError, PipelineError
from vse_pipe.core.locks import claim, share

HOLD = "import sys, time; from pathlib import Path; from vse_pipe.core.locks import claim\nwith claim(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "out")], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_writer_stops_at_once_and_names_the_first(tmp_path, holder):
    started = time.monotonic()
    with pytest.raises(LockedError, match=f"process {holder.pid}"), claim(tmp_path / "out"):
        pytest.fail("two writers")
    assert time.monotonic() - started < 1


def test_a_killed_writer_holds_nothing(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with claim(tmp_path / "out"):
        assert (tmp_path / "out.lock").read_text() == f"{os.getpid()} on {socket.gethostname()}\n"


@pytest.mark.parametrize(
    "asks", ["die_with_parent()", "signal.signal(15, signal.SIG_IGN); die_with_parent(signal.SIGKILL)"]
)
def test_a_stage_started_by_dvc_ends_with_its_parent(asks):
    child = f"from vse_pipe.core.locks import die_with_parent; import os, signal, time; {asks}; print(os.getpid(), flush=True); time.sleep(60)"
    parent = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True)
    orphan = int(process.stdout.readline())
    process.kill()
    process.wait()
    process.stdout.close()
    for _ in range(50):
        try:
            gone = Path(f"/proc/{orphan}/stat").read_text(encoding="ascii").split()[2] == "Z"
        except FileNotFoundError:
            gone = True
        if gone:
            return
        time.sleep(0.1)
    os.kill(orphan, signal.SIGKILL)
    pytest.fail("the orphan went on")


def test_shares_exclude_their_like_and_the_whole(tmp_path):
    out = tmp_path / "out"
    me = f"process {os.getpid()} on "
    with share(out, 1, 3), share(out, 3, 3):
        with pytest.raises(LockedError, match=rf"{me}.* \(share 1/3\); wait"), share(out, 1, 3):
            pytest.fail("two processes with one share")
        with pytest.raises(LockedError, match=rf"{me}.*\(share 1/3\), \d+ on .*\(share 3/3\); wait"), claim(out):
            pytest.fail("a writer beside sharers")
        with pytest.raises(LockedError, match=r"share 1/3"), share(out, 1, 2):
            pytest.fail("shares of two and of three")
    with claim(out), pytest.raises(LockedError, match=me), share(out, 2, 3):
        pytest.fail("a sharer beside a writer")


def test_a_share_waits_for_whoever_looks_whether_it_is_held(tmp_path):
    path = tmp_path / "out.share-1of2.lock"
    with path.open("w") as look:
        fcntl.flock(look, fcntl.LOCK_SH)
        threading.Timer(0.06, fcntl.flock, (look, fcntl.LOCK_UN)).start()
        with share(tmp_path / "out", 1, 2):
            assert path.read_text().startswith(f"{os.getpid()} on ")
    assert not path.exists()


def test_sharers_of_another_output_are_not_in_the_way(tmp_path):
    with share(tmp_path / "out.x", 1, 2), claim(tmp_path / "out"), share(tmp_path / "out2", 2, 3):
        assert (tmp_path / "out.lock").read_text().startswith(f"{os.getpid()} on ")


@pytest.mark.parametrize(
    ("lock", "name"),
    [(claim, "out.lock"), (lambda out: share(out, 1, 2), "out.share-1of2.lock")],
    ids=["whole", "share"],
)
def test_a_link_in_place_of_a_lock_is_not_written_through(tmp_path, lock, name):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / name).symlink_to(precious)
    with pytest.raises(OSError, match="symbolic link"), lock(tmp_path / "out"):
        pass
    assert precious.read_text() == "mine"


def test_a_writer_takes_its_lock_away(tmp_path):
    with pytest.raises(KeyError), claim(tmp_path / "out"):
        raise KeyError
    with claim(tmp_path / "out"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_was_taken_away_between_opening_and_locking_is_none(tmp_path, monkeypatch):
    flock = fcntl.flock

    def late(lock, kind):
        (tmp_path / "out.lock").unlink()
        flock(lock, kind)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(LockedError, match="try again"), claim(tmp_path / "out"):
        pytest.fail("two locks of one name")


@pytest.mark.parametrize(
    "lie", [os.mkfifo, lambda path: os.link(path.parent / "precious", path)], ids=["FIFO", "hard link"]
)
@pytest.mark.parametrize("name", ["out.lock", "out.share-1of2.lock"])
def test_what_is_no_lock_is_refused_by_name(tmp_path, lie, name):
    (tmp_path / "precious").write_text("mine")
    lie(tmp_path / name)
    said = rf"{name}: a .* lies in the place of a lock; move it away"
    with pytest.raises(PipelineError, match=said), share(tmp_path / "out", 1, 2):
        pass
    assert (tmp_path / "precious").read_text() == "mine"


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
from vse_pipe.core import memory
warnings.simplefilter("ignore")
path = Path(sys.argv[1])
array = np.load(path, mmap_mode="r")
memory.guard(path)
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
