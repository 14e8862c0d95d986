"""One writer per output, and no orphans.

``dvc`` killed with SIGKILL leaves its stage running, and the next ``dvc repro`` starts a second writer in the same
folder; the lock stops the second one at once and the death signal stops the first.
"""

import contextlib
import ctypes
import fcntl
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import LockedError

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask the kernel to end this process when its parent ends (Linux; elsewhere the lock alone protects)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@contextlib.contextmanager
def claim(out: Path) -> Iterator[None]:
    """Hold the only right to write ``out``. Raises LockedError naming the process that holds it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.with_name(out.name + ".lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            raise LockedError(
                f"{out} is being written by process {holder}; wait for it to end, then try again"
            ) from error
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield
