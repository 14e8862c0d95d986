import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from vse_pipe.core.errors import LockedError, PipelineError
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
