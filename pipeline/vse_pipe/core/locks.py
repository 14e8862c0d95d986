"""One writer per output, and no orphans: ``dvc`` killed with SIGKILL leaves its stage running, and the
next ``dvc repro`` would start a second writer in the same folder."""

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


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """Ask the kernel to end this process when its parent ends. number: the signal."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it ended before the kernel knew
        os.kill(os.getpid(), number)


@contextlib.contextmanager
def claim(out: Path) -> Iterator[None]:
    """Holds the only right to write the folder ``out``, which is repaired first. Raises LockedError
    with the process that holds it, or a share of it, and as ``tidy``."""
    with _holding(out.with_name(out.name + ".lock"), out):
        for path in out.parent.glob(f"{escape(out.name)}.share-*.lock"):
            with _acquired(path, out):
                pass
        tidy(out)
        yield


@contextlib.contextmanager
def share(out: Path, number: int) -> Iterator[None]:
    """Holds share ``number`` of the work on ``out``. Raises LockedError with the process that holds
    the same share, or ``out`` itself."""
    with _holding(out.with_name(f"{out.name}.share-{number}.lock"), out):
        with _acquired(out.with_name(out.name + ".lock"), out):
            pass
        yield


@contextlib.contextmanager
def _holding(path: Path, out: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with _acquired(path, out):
        path.write_text(f"{os.getpid()} on {socket.gethostname()}", encoding="utf-8")
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _acquired(path: Path, out: Path) -> AcquireReturnProxy:
    try:
        # A starting process takes the locks of others for a moment to see whether they are free.
        return FileLock(path).acquire(timeout=0.3)
    except Timeout as error:
        holder = path.read_text(encoding="utf-8") if path.exists() else "unknown"  # it has just ended
        raise LockedError(f"{out} is being written by process {holder}; wait for it to end, then try again") from error
