"""One writer per output, and no orphans.

``dvc`` killed with SIGKILL leaves its stage running, and the next ``dvc repro`` starts a second writer in the same
folder; the lock stops the second one at once and the death signal stops the first.

Locks are ``flock`` on files beside the output, which the kernel gives back when a process ends, however it ends. On NFS
(version 4, or 3 with lockd) Linux passes them on to the server; a mount with ``nolock`` or ``local_lock=flock`` keeps
them to one machine.
"""

import contextlib
import ctypes
import fcntl
import os
import re
import signal
import socket
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from vse_pipe.core import memory
from vse_pipe.core.errors import LockedError, PipelineError
from vse_pipe.core.files import tidy

_PR_SET_PDEATHSIG = 1
_TRIES, _MOMENT = 10, 0.02


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """Ask the kernel to end this process when its parent ends (Linux; elsewhere the lock alone protects). number: the
    signal."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # it ended before the kernel knew
            os.kill(os.getpid(), number)


@contextlib.contextmanager
def claim(out: Path) -> Iterator[None]:
    """Holds the only right to write the folder ``out``, which is repaired first. Tables that are read meanwhile must
    not change.

    Raises LockedError with the processes that hold it, PipelineError where ``out`` is no folder or the lock no plain
    file.
    """
    path = out.with_name(out.name + ".lock")
    with _opened(path) as lock:
        if not _locked(lock, fcntl.LOCK_EX):
            raise _locked_error(out, [holder for _, _, holder in _sharers(out)] or [_holder(lock)])
        _sign(lock)
        try:
            tidy(out)
            with memory.unchanged_inputs(out):
                yield
        finally:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def share(out: Path, number: int, count: int) -> Iterator[None]:
    """Holds share ``number`` (1 to ``count``) of the work on ``out``. Other processes may hold other shares of the same
    count.

    Raises LockedError with the process that holds the same share, shares of another count, or ``out`` itself.
    """
    path = out.with_name(f"{out.name}.share-{number}of{count}.lock")
    with _opened(out.with_name(out.name + ".lock")) as whole_lock, _opened(path) as share_lock:
        if not _locked(whole_lock, fcntl.LOCK_SH):
            raise _locked_error(out, [_holder(whole_lock)])
        if not _locked_soon(share_lock):
            raise _locked_error(out, [f"{_holder(share_lock)} (share {number}/{count})"])
        try:
            if holders := [holder for _, theirs, holder in _sharers(out) if theirs != count]:
                raise _locked_error(out, holders)
            _sign(share_lock)
            tidy(out)
            yield
        finally:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+", encoding="utf-8", opener=_unless_link) as lock:
        yield lock


def _unless_link(path: str, flags: int) -> int:
    """Opens the lock, which the holder's number will overwrite. A link is refused: it could lead to any file."""
    handle = os.open(path, flags | os.O_NOFOLLOW, 0o666)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(handle)
        kind = "hard link to another file" if stat.S_ISREG(status.st_mode) else "pipe or a device"
        raise PipelineError(
            f"{path}: a {kind} lies in the place of a lock; move it away and run the same command again"
        )
    return handle


def _locked(lock: TextIO, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return os.fstat(lock.fileno()).st_nlink > 0  # else its holder removed it since it was opened


def _locked_soon(lock: TextIO) -> bool:
    """``_locked`` with retries: a starting process takes each share's lock for a moment to see whether it is free."""
    for _ in range(_TRIES):
        if _locked(lock, fcntl.LOCK_EX):
            return True
        time.sleep(_MOMENT)
    return False


def _sign(lock: TextIO) -> None:
    lock.truncate(0)
    lock.write(f"{os.getpid()} on {socket.gethostname()}\n")
    lock.flush()


def _holder(lock: TextIO) -> str:
    lock.seek(0)
    return lock.read().strip() or "unknown"


def _sharers(out: Path) -> list[tuple[int, int, str]]:
    """(share, count, holder) of every share that a process holds now."""
    sharers = []
    for path in sorted(out.parent.glob("*.share-*.lock")):
        match = re.fullmatch(re.escape(out.name) + r"\.share-(\d+)of(\d+)\.lock", path.name)
        if match:
            with _opened(path) as lock:
                if not _locked(lock, fcntl.LOCK_SH):
                    number, count = int(match[1]), int(match[2])
                    sharers.append((number, count, f"{_holder(lock)} (share {number}/{count})"))
    return sharers


def _locked_error(out: Path, holders: list[str]) -> LockedError:
    return LockedError(f"{out} is being written by process {', '.join(holders)}; wait for it to end, then try again")
