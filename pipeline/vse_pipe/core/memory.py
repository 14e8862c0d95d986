"""Limits on the memory that the content of files takes."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vse_pipe.core.errors import InputError

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
