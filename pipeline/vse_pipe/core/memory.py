"""How much of what a file holds may be read into memory: asked before it is read, by the sizes that the file states."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vse_pipe.core.errors import InputError

_MIB = 2**20
# What a byte of text takes as it is read whole, decoded and cut: lines of one word take more, long ones less.
_OF_TEXT = 8


@dataclass
class _Limit:
    """most, taken: bytes; parameter: that sets it, for messages; copies: of what is read, while it is read."""

    most: int
    parameter: str
    copies: int
    taken: int = 0


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


def left() -> int:
    """Bytes that may be read."""
    if _limits:
        return max(0, _limits[-1].most - _limits[-1].taken) // _limits[-1].copies
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def require(where: str, size: int) -> None:
    """Raises InputError unless ``size`` bytes may still be read. where: the file, and what in it, for the message."""
    if size <= left():
        return
    if not _limits:
        raise InputError(f"{where}: takes {_mib(size)} MiB in memory, more than this machine has ({_mib(left())} MiB)")
    now, size = _limits[-1], size * _limits[-1].copies
    beside = f" beside the {_mib(now.taken)} MiB read before" if now.taken >= _MIB else ""
    raise InputError(
        f"{where}: takes {_mib(size)} MiB in memory{beside}, more than the {now.most // _MIB} MiB of {now.parameter}; "
        "raise it if that is meant"
    )


def take(where: str, size: int) -> None:
    """``require``, and count them: they stay in memory."""
    require(where, size)
    if _limits:
        _limits[-1].taken += size


def taken() -> int:
    """Bytes that are counted now, for ``back_to``."""
    return _limits[-1].taken if _limits else 0


def back_to(before: int) -> None:
    """What was taken since ``before`` is in memory no longer."""
    if _limits:
        _limits[-1].taken = min(before, _limits[-1].taken)


def require_text(path: Path) -> None:
    """``require`` for a file of text that is read whole, decoded and cut into lines."""
    require(str(path), path.stat().st_size * _OF_TEXT)


def _mib(size: int) -> int:
    return -(-size // _MIB)
