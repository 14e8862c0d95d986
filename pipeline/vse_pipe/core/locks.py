"""One writer per output, and no orphans.

``dvc`` killed with SIGKILL leaves its stage running, and the next ``dvc repro`` starts a second writer in the same
folder; the lock stops the second one at once and the death signal stops the first. The system gives a lock back when
its process ends, however it ends.
"""

import contextlib
import ctypes
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from vse_pipe.core.errors import LockedError
from vse_pipe.core.files import bring_back, tidy

_PR_SET_PDEATHSIG = 1
# A starting process takes the locks of others for a moment to see whether they are free.
_PATIENCE_S = 0.3


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
    """Holds the only right to write the folder ``out``, which is repaired first.

    Raises LockedError with the processes that hold it, and as ``tidy``.
    """
    with _holding(_lock(out), out):
        _require_free(out, list(_shares(out)))
        tidy(out)
        yield


@contextlib.contextmanager
def share(out: Path, number: int, count: int) -> Iterator[None]:
    """Holds share ``number`` (1 to ``count``) of the work on ``out``. Other processes may hold other shares of the same
    count.

    Raises LockedError with the process that holds the same share, shares of another count, or ``out`` itself.
    """
    with _holding(out.with_name(f"{out.name}.share-{number}of{count}.lock"), out):
        _require_free(out, [_lock(out), *(path for path, theirs in _shares(out).items() if theirs != count)])
        bring_back(out)
        yield


def _lock(out: Path) -> Path:
    return out.with_name(out.name + ".lock")


def _shares(out: Path) -> dict[Path, int]:
    """{lock: count} of the shares of ``out`` that are held, or were when their process was killed."""
    matches = {
        path: re.fullmatch(re.escape(out.name) + r"\.share-\d+of(\d+)\.lock", path.name)
        for path in sorted(out.parent.glob("*.share-*.lock"))
    }
    return {path: int(match[1]) for path, match in matches.items() if match}


@contextlib.contextmanager
def _holding(path: Path, out: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=_PATIENCE_S)
    except Timeout as error:
        raise _locked(out, [path]) from error
    try:
        path.write_text(f"{os.getpid()} on {socket.gethostname()}\n", encoding="utf-8")
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.release()


def _require_free(out: Path, paths: list[Path]) -> None:
    """Raises LockedError if a process holds one of these locks."""
    if busy := [path for path in paths if path.exists() and _is_held(path)]:
        raise _locked(out, busy)


def _is_held(path: Path) -> bool:
    try:
        with FileLock(path, timeout=_PATIENCE_S):
            return False
    except Timeout:
        return True


def _locked(out: Path, busy: list[Path]) -> LockedError:
    return LockedError(
        f"{out} is being written by process {', '.join(map(_holder, busy))}; wait for it to end, then try again"
    )


def _holder(path: Path) -> str:
    share_of = re.search(r"\.share-(\d+)of(\d+)\.lock$", path.name)
    try:
        process = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:  # it has just ended
        process = "unknown"
    return f"{process} (share {share_of[1]}/{share_of[2]})" if share_of else process
