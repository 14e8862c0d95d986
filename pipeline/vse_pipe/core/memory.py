"""Limits on files that are read: the memory that their content takes, and that they stay the same while they are read."""

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

from vse_pipe.core.errors import InputError, IntegrityError

if TYPE_CHECKING:
    import numpy as np


_MIB = 2**20
# What a byte of text takes as it is read whole, decoded and cut: lines of one word take more, long ones less.
_OF_TEXT = 8


@dataclass
class _Limit:
    """most, reserved_bytes: bytes; parameter: that sets it, for messages; copies: of what is read, while it is read."""

    most: int
    parameter: str
    copies: int
    reserved_bytes: int = 0


# One for the process, not for the thread: what the threads of a stage read counts too.
_limits: list[_Limit] = []


@contextlib.contextmanager
def limit(mebibytes: int, parameter: str, copies: int = 1) -> Iterator[None]:
    """Within, what files give may take no more than so much altogether, whatever they say of themselves. Without any limit what
    the machine has is the most for each. parameter: the address of ``mebibytes``, for messages; copies: how often the content
    is in memory while it is taken up."""
    _limits.append(_Limit(mebibytes * _MIB, parameter, copies))
    try:
        yield
    finally:
        _limits.pop()


def available() -> int:
    """Bytes that may be read."""
    if _limits:
        return max(0, _limits[-1].most - _limits[-1].reserved_bytes) // _limits[-1].copies
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def require(where: str, size: int) -> None:
    """Raises InputError unless ``size`` bytes may still be read. where: the file, and what in it, for the message."""
    if size <= available():
        return
    if not _limits:
        raise InputError(
            f"{where}: takes {_mib(size)} MiB in memory, more than this machine has ({_mib(available())} MiB)"
        )
    now, size = _limits[-1], size * _limits[-1].copies
    earlier = f" beside the {_mib(now.reserved_bytes)} MiB read before" if now.reserved_bytes >= _MIB else ""
    raise InputError(
        f"{where}: takes {_mib(size)} MiB in memory{earlier}, more than the {now.most // _MIB} MiB of {now.parameter}; "
        "raise it if that is meant"
    )


def reserve(where: str, size: int) -> None:
    """``require``, and count them: they stay in memory."""
    require(where, size)
    if _limits:
        _limits[-1].reserved_bytes += size


def reserved() -> int:
    """Bytes that are counted now, for ``back_to``."""
    return _limits[-1].reserved_bytes if _limits else 0


def release_to(before: int) -> None:
    """What was taken since ``before`` is in memory no longer."""
    if _limits:
        _limits[-1].reserved_bytes = min(before, _limits[-1].reserved_bytes)


def require_text(path: Path) -> None:
    """``require`` for a file of text that is read whole, decoded and cut into lines."""
    require(str(path), path.stat().st_size * _OF_TEXT)


def _mib(size: int) -> int:
    return -(-size // _MIB)


State = tuple[int, int, int]


@dataclass
class _Reading:
    """out: the output of whoever reads, who may write it anew; states: other files as they were when they were first read."""

    out: Path
    states: dict[Path, State] = field(default_factory=dict)


_readings: list[_Reading] = []


@contextlib.contextmanager
def unchanged_inputs(out: Path) -> Iterator[None]:
    """Within, what ``same`` is asked of stays as it was the first time, but for what lies in ``out``."""
    _readings.append(_Reading(out.resolve()))
    try:
        yield
    finally:
        _readings.pop()


def unchanged_path(path: Path) -> Path:
    """``path``, about to be read. Raises IntegrityError where it is another file than when it was first read, or was changed."""
    if _readings and not (where := path.resolve()).is_relative_to(_readings[-1].out):
        require_state(path, _readings[-1].states.setdefault(where, file_state(path)))
    return path


def require_state(path: Path, before: State) -> None:
    """Raises IntegrityError unless ``path`` is the file whose ``state`` was ``before``, and was not changed since."""
    if not path.exists():
        raise IntegrityError(f"{path}: removed while it was read; make it again, then run the same command again")
    if file_state(path) != before:
        raise IntegrityError(f"{path}: written anew while it was read; run the same command again")


@contextlib.contextmanager
def unchanged_file(path: Path) -> Iterator[None]:
    """What is read of ``path`` within is of one file, or of a pipe, which changes with every byte. Raises as ``require``."""
    before = file_state(path) if path.is_file() else None
    yield
    if before is not None:
        require_state(path, before)


def file_state(path: Path) -> State:
    """What tells a file from one that takes its place, and from itself before it was written to."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


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
        raise IntegrityError(_change_message(where))


def _changed(where: Path) -> bool:
    """A file that was replaced or removed is another one: the map still has the old one, whole."""
    if where not in _opened or not where.exists():
        return False
    before, now = _opened[where][1], file_state(where)
    return now[0] == before[0] and now != before


def _change_message(where: Path) -> str:
    return f"{_opened[where][0]}: changed while it was read; make it again, then run the same command again"


@ctypes.CFUNCTYPE(None, ctypes.c_int)
def _bus_error(number: int) -> None:
    if not _ending.acquire(blocking=False):  # several threads read behind the end; one of them says so
        time.sleep(60)
    # No exception can leave a handler of this kind: the read that failed would be tried again.
    lines = [_change_message(where) for where in _opened if _changed(where)] or [
        "a file was cut while it was read (bus error)"
    ]
    os.write(2, "".join(f"error: {line}\n" for line in lines).encode(errors="backslashreplace"))
    os._exit(IntegrityError.exit_status)
