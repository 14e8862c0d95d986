"""One writer per output, and no orphans.

``dvc`` killed with SIGKILL leaves its stage running, and the next ``dvc repro`` starts a second
writer in the same folder; the lock stops the second one at once and the death signal stops the
first. The system gives a lock back when its process ends, however it ends.
"""

import contextlib
import ctypes
import os
import signal
import socket
from collections.abc import Iterator
from glob import escape
from pathlib import Path

from filelock import AcquireReturnProxy, FileLock, Timeout

from vse_pipe.core.errors import LockedError
from vse_pipe.core.files import tidy

_PR_SET_PDEATHSIG = 1
# A starting process takes the locks of others for a moment to see whether they are free.
_PATIENCE_S = 0.3


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """Ask the kernel to end this process when its parent ends. number: the signal."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it ended before the kernel knew
        os.kill(os.getpid(), number)


@contextlib.contextmanager
def claim(out: Path) -> Iterator[None]:
    """Holds the only right to write the folder ``out``, which is repaired first.

    Raises LockedError with the process that holds it, and as ``tidy``.
    """
    with _holding(_lock(out), out):
        _require_free(out, _shares(out))
        tidy(out)
        yield


@contextlib.contextmanager
def share(out: Path, number: int, count: int) -> Iterator[None]:
    """Holds share ``number`` (1 to ``count``) of the work on ``out``. Other processes may hold
    other shares of the same count.

    Raises LockedError with the process that holds the same share, shares of another count, or
    ``out`` itself.
    """
    path = out.with_name(f"{out.name}.share-{number}of{count}.lock")
    with _holding(path, out, f" (share {number}/{count})"):
        foreign = [path for path in _shares(out) if not path.name.endswith(f"of{count}.lock")]
        _require_free(out, [_lock(out), *foreign])
        yield


def _lock(out: Path) -> Path:
    return out.with_name(out.name + ".lock")


def _shares(out: Path) -> list[Path]:
    """The locks of shares of ``out`` that are held, or were when their process was killed."""
    return sorted(out.parent.glob(f"{escape(out.name)}.share-*of*.lock"))


def _require_free(out: Path, paths: list[Path]) -> None:
    """Raises LockedError if a process holds one of these locks."""
    for path in filter(Path.exists, paths):
        with _acquired(path, out):
            pass


@contextlib.contextmanager
def _holding(path: Path, out: Path, work: str = "") -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with _acquired(path, out):
        path.write_text(f"{os.getpid()} on {socket.gethostname()}{work}", encoding="utf-8")
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _acquired(path: Path, out: Path) -> AcquireReturnProxy:
    try:
        return FileLock(path).acquire(timeout=_PATIENCE_S)
    except Timeout as error:
        holder = path.read_text(encoding="utf-8") if path.exists() else "unknown"  # it has just ended
        raise LockedError(f"{out} is being written by process {holder}; wait for it to end, then try again") from error
