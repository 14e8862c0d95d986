"""Work in independent parts: this process does them, or the workers of a pool while one is open.

No output depends on the pool: the parts follow from the work alone, and results come in the order
of the parts. This module imports no torch.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

# A stream gives a result for each part, in the order of the parts.
Stream = Callable[[Iterable[Any]], Iterable[Any]]


class Pool(Protocol):
    """Processes that work for this one."""

    @property
    def count(self) -> int:
        """How many."""

    def run(self, stream: Stream, parts: Iterable[Any], cost: int, ordered: bool = True) -> Iterator[Any]:
        """``stream(parts)``, dealt to the workers. ordered: results in the order of the parts, else
        as they are finished."""


_open: list[Pool] = []


@contextlib.contextmanager
def using(pool: Pool) -> Iterator[None]:
    """Within, ``run_parts`` uses this pool."""
    _open.append(pool)
    try:
        yield
    finally:
        _open.pop()


def has_pool() -> bool:
    """Whether a pool is open. Its workers do not share this process's memory."""
    return bool(_open)


def worker_count() -> int:
    """Workers of the pool that is open; 1 without one."""
    return _open[-1].count if _open else 1


def run_parts(stream: Stream, parts: Iterable[Any], cost: int = 0, ordered: bool = True) -> Iterator[Any]:
    """``stream(parts)`` here or in the open pool. cost: bytes of a part and its result, 0 if
    unknown; ordered: as in ``Pool.run``. Raises the errors of ``stream`` and of the pool."""
    return _open[-1].run(stream, parts, cost, ordered) if _open else iter(stream(parts))
