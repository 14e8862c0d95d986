"""Limits on files that are read: how much memory their content takes, and that they stay the same meanwhile."""

import contextlib
import ctypes
import mmap
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
# Bytes in memory for one byte of text that is read whole, decoded and cut; short lines take more, long lines less.
_OF_TEXT = 8


@dataclass
class _Limit:
    """most, reserved_bytes: bytes; parameter: its address, for messages; copies: of the content in memory during
    reading."""

    most: int
    parameter: str
    copies: int
    reserved_bytes: int = 0


# One list for the process: the threads of a stage share a limit.
_limits: list[_Limit] = []


@contextlib.contextmanager
def limit(mebibytes: int, parameter: str, copies: int = 1) -> Iterator[None]:
    """Within, the content of files may take no more than ``mebibytes`` altogether. Without a limit, each may take the
    machine's memory. parameter: its address, for messages; copies: how often the content is in memory during reading.
    """
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
    """Raises InputError unless ``size`` more bytes may be read. where: the file and its part, for the message."""
    if size <= available():
        return
    if not _limits:
        raise InputError(
            f"{where}: takes {_mib(size)} MiB in memory, more than this machine has ({_mib(available())} MiB)"
        )
    now, size = _limits[-1], size * _limits[-1].copies
    earlier = f" beside the {_mib(now.reserved_bytes)} MiB read before" if now.reserved_bytes >= _MIB else ""
    raise InputError(
        f"{where}: takes {_mib(size)} MiB in memory{earlier}, more than the {now.most // _MIB} MiB of {now.parameter}; raise it if that is meant"
    )


def reserve(where: str, size: int) -> None:
    """``require``, and count the bytes, which stay in memory."""
    require(where, size)
    if _limits:
        _limits[-1].reserved_bytes += size


def reserved() -> int:
    """Bytes that are counted now, for ``release_to``."""
    return _limits[-1].reserved_bytes if _limits else 0


def release_to(before: int) -> None:
    """Forget the bytes that were counted after ``reserved()`` returned ``before``."""
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
    """out: the reader's own output, which may change; states: of other files at their first reading."""

    out: Path
    states: dict[Path, State] = field(default_factory=dict)


_readings: list[_Reading] = []


@contextlib.contextmanager
def unchanged_inputs(out: Path) -> Iterator[None]:
    """Within, ``unchanged_path`` requires that a file outside of ``out`` is the same at every reading."""
    _readings.append(_Reading(out.resolve()))
    try:
        yield
    finally:
        _readings.pop()


def unchanged_path(path: Path) -> Path:
    """``path``. Raises IntegrityError where the file was changed or replaced since its first reading."""
    if _readings and not (where := path.resolve()).is_relative_to(_readings[-1].out):
        require_state(path, _readings[-1].states.setdefault(where, file_state(path)))
    return path


def require_state(path: Path, before: State) -> None:
    """Raises IntegrityError unless ``path`` still has the state ``before``."""
    if not path.exists():
        raise IntegrityError(f"{path}: removed while it was read; make it again, then run the same command again")
    if file_state(path) != before:
        raise IntegrityError(f"{path}: written anew while it was read; run the same command again")


@contextlib.contextmanager
def unchanged_file(path: Path) -> Iterator[None]:
    """Raises as ``require_state`` at the end where the file changed within. A pipe changes with every byte and passes."""
    before = file_state(path) if path.is_file() else None
    yield
    if before is not None:
        require_state(path, before)


def file_state(path: Path) -> State:
    """Inode, size and time of change. They differ between a file and its replacement or its changed version."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


# Reading a memory map behind the end of a file that was cut is a bus error, which ends a process without a message.
# ``pread`` would cost training a system call for each row; a handler costs nothing. Resolved path: path as named, state
# when mapped.
_opened: dict[Path, tuple[Path, State]] = {}
_ending = threading.Lock()


def guard(path: Path) -> None:
    """Call it when ``path`` is mapped. If the file is cut while it is read, the process ends with one line and the exit
    status of an IntegrityError; the next writer removes its partial output."""
    if not _opened:
        ctypes.CDLL(None).signal(signal.SIGBUS, _bus_error)
    _opened[path.resolve()] = path, file_state(path)


def state_of(array: "np.memmap") -> State:
    """The state of the array's file when it was mapped; the present state of an unguarded file."""
    where = Path(str(array.filename))
    return _opened[where][1] if where in _opened else file_state(where)


def require_unchanged(array: "np.ndarray") -> None:
    """Raises IntegrityError where the file behind a guarded memory map was changed in place since; other arrays pass."""
    where = Path(getattr(array, "filename", None) or os.devnull)
    if _changed(where):
        raise IntegrityError(_change_message(where))


def release(array: "np.ndarray") -> None:
    """Gives back the memory of a mapped file's pages that were read; they are read again when needed. Other arrays
    stay as they are."""
    mapped = getattr(array, "_mmap", None)
    if mapped is not None:
        mapped.madvise(mmap.MADV_DONTNEED)


def _changed(where: Path) -> bool:
    """Whether the file was changed in place. After a replacement or removal the map still has the old file."""
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
