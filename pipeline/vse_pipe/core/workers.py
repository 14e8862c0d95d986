"""Work in independent parts: this process does them, or the workers of a pool while one is open.

The pool changes nothing that is written: the parts follow from the work alone, and results come in the order of the parts.
This module imports no torch.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

# A result for each part, in their order, that follows from the part and from what the stream itself holds.
Stream = Callable[[Iterable[Any]], Iterable[Any]]


class Pool(Protocol):
    """Processes that work for this one."""

    @property
    def count(self) -> int:
        """How many."""

    def each(self, stream: Stream, parts: Iterable[Any], cost: int, ordered: bool = True) -> Iterator[Any]:
        """``stream(parts)``, of which each worker gets some. ordered: in the order of the parts, else as they are finished."""


_open: list[Pool] = []


@contextlib.contextmanager
def using(pool: Pool) -> Iterator[None]:
    """Within, ``each`` asks this pool."""
    _open.append(pool)
    try:
        yield
    finally:
        _open.pop()


def elsewhere() -> bool:
    """Whether a pool is open: what this process holds, workers do not have."""
    return bool(_open)


def worker_count() -> int:
    """Workers of the pool that is open; 1 without one."""
    return _open[-1].count if _open else 1


def each(stream: Stream, parts: Iterable[Any], cost: int = 0, ordered: bool = True) -> Iterator[Any]:
    """``stream(parts)``, whoever does it. cost: bytes that a part takes with its result, 0 where nobody knows; ordered: as of
    ``Pool.each``. Raises what ``stream`` raises, and what a pool does that cannot go on."""
    return _open[-1].each(stream, parts, cost, ordered) if _open else iter(stream(parts))
