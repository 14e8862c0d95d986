"""Files that are read several times, by blocks or by columns: written anew in between, they would be mixed."""

import contextlib
import ctypes
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vse_pipe.core.errors import IntegrityError

if TYPE_CHECKING:
    import numpy as np  # a tenth of a second that reading params.yaml does not pay

State = tuple[int, int, int]


@dataclass
class _Reading:
    """out: the output of whoever reads, who may write it anew; seen: other files as they were when they were first read."""

    out: Path
    seen: dict[Path, State] = field(default_factory=dict)


_open: list[_Reading] = []


@contextlib.contextmanager
def required(out: Path) -> Iterator[None]:
    """Within, what ``same`` is asked of stays as it was the first time, but for what lies in ``out``."""
    _open.append(_Reading(out.resolve()))
    try:
        yield
    finally:
        _open.pop()


def unchanged_path(path: Path) -> Path:
    """``path``, about to be read. Raises IntegrityError where it is another file than when it was first read, or was changed."""
    if _open and not (where := path.resolve()).is_relative_to(_open[-1].out):
        require_state(path, _open[-1].seen.setdefault(where, file_state(path)))
    return path


def require_state(path: Path, before: State) -> None:
    """Raises IntegrityError unless ``path`` is the file whose ``state`` was ``before``, and was not changed since."""
    if not path.exists():
        raise IntegrityError(f"{path}: removed while it was read; make it again, then run the same command again")
    if file_state(path) != before:
        raise IntegrityError(f"{path}: written anew while it was read; run the same command again")


@contextlib.contextmanager
def throughout(path: Path) -> Iterator[None]:
    """What is read of ``path`` within is of one file, or of a pipe, which changes with every byte. Raises as ``require``."""
    before = file_state(path) if path.is_file() else None
    yield
    if before is not None:
        require_state(path, before)


def file_state(path: Path) -> State:
    """What tells a file from one that takes its place, and from itself before it was written to."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


# Files that are read through a memory map, and what happens when somebody cuts or changes one in place meanwhile.
#
# Reading behind the end of a file that was cut is a bus error, which ends a process without a word. Copying rows with ``pread``
# instead would cost training a system call a row; a handler costs nothing.

# By where it lies: how it was named, and what it was then.
_opened: dict[Path, tuple[Path, State]] = {}
_ending = threading.Lock()


def guard(path: Path) -> None:
    """To be called when ``path`` is mapped. Cut while it is read, it ends the process with one line and the exit status of an
    IntegrityError; what the process was writing is left for whoever comes next."""
    if not _opened:
        ctypes.CDLL(None).signal(signal.SIGBUS, _bus_error)
    _opened[path.resolve()] = path, file_state(path)


def state_of(array: "np.memmap") -> State:
    """Of its file, when it was mapped where that was guarded."""
    where = Path(str(array.filename))
    return _opened[where][1] if where in _opened else file_state(where)


def require_unchanged(array: "np.ndarray") -> None:
    """Raises IntegrityError where the file behind a guarded memory map was changed in place since; other arrays pass."""
    where = Path(getattr(array, "filename", None) or os.devnull)
    if _changed(where):
        raise IntegrityError(_said(where))


def _changed(where: Path) -> bool:
    """A file that was replaced or removed is another one: the map still has the old one, whole."""
    if where not in _opened or not where.exists():
        return False
    before, now = _opened[where][1], file_state(where)
    return now[0] == before[0] and now != before


def _said(where: Path) -> str:
    return f"{_opened[where][0]}: changed while it was read; make it again, then run the same command again"


@ctypes.CFUNCTYPE(None, ctypes.c_int)
def _bus_error(number: int) -> None:
    if not _ending.acquire(blocking=False):  # several threads read behind the end; one of them says so
        time.sleep(60)
    # No exception can leave a handler of this kind: the read that failed would be tried again.
    lines = [_said(where) for where in _opened if _changed(where)] or ["a file was cut while it was read (bus error)"]
    os.write(2, "".join(f"error: {line}\n" for line in lines).encode(errors="backslashreplace"))
    os._exit(IntegrityError.exit_status)
