"""Limits on the memory that the content of files takes."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vse_pipe.core.errors import InputError

_MIB = 2**20
# Bytes in memory for one byte of text that is read whole, decoded and cut; short lines take more,
# long lines less.
_OF_TEXT = 8


@dataclass
class _Limit:
    """most, reserved: bytes; parameter: its address, for messages."""

    most: int
    parameter: str
    reserved: int = 0


# The threads of a stage share a limit. The first holds for each file outside of all others.
_limits = [_Limit(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), "this machine's memory")]


@contextlib.contextmanager
def limit(mebibytes: int, parameter: str) -> Iterator[None]:
    """Within, the content of files may take no more altogether. parameter: the limit's address."""
    _limits.append(_Limit(mebibytes * _MIB, parameter))
    try:
        yield
    finally:
        _limits.pop()


def require(where: str, size: int) -> None:
    """Raises InputError unless ``size`` more bytes fit. where: of what, for the message."""
    limit = _limits[-1]
    if limit.reserved + size > limit.most:
        needed, before, most = (-(-count // _MIB) for count in (size, limit.reserved, limit.most))
        earlier = f" beside the {before} MiB read before" if before else ""
        raise InputError(
            f"{where}: takes {needed} MiB in memory{earlier}, more than the {most} MiB of {limit.parameter}; raise it"
        )


def reserve(where: str, size: int) -> None:
    """``require``, and count the bytes, which stay in memory."""
    require(where, size)
    if len(_limits) > 1:
        _limits[-1].reserved += size


def require_text(path: Path) -> None:
    """``require`` for a file of text that is read whole, decoded and cut into lines."""
    require(str(path), path.stat().st_size * _OF_TEXT)
