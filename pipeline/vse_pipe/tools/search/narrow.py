"""Which of the items that were scored are shown: the best, or of those that are alike the best one."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from vse_pipe.core.errors import InputError, UsageError

# Items that are compared with all leaders at once.
_BLOCK = 512


@dataclass(frozen=True)
class Wanted:
    """k: how many hits, fewer where fewer fit; offset: how many better ones are left out. to: ``query.IMAGES``,
    ``query.CAPTIONS``, None as ``query.direction``. where: a condition on the columns of images.parquet, see ``where.rows``.
    group: from which cosine on two items are alike, of which only the better is a hit. probability: is that of a match told?
    least: that of every hit, at least."""

    k: int = 10
    to: str | None = None
    where: str | None = None
    group: float | None = None
    offset: int = 0
    probability: bool = False
    least: float | None = None

    def check(self) -> None:
        """Raises UsageError for numbers that mean nothing."""
        if self.k < 1:
            raise UsageError(f"k is {self.k}; ask for at least one result")
        if self.offset < 0:
            raise UsageError(f"offset is {self.offset}; the first result has 0")
        if self.least is not None and not 0 <= self.least <= 1:
            raise UsageError(f"--min-probability is from 0 to 1, got {self.least:g}")
        if self.group is not None and not 0 < self.group <= 1:
            raise UsageError(f"--group is a cosine above 0 and at most 1, got {self.group:g}")


def best(scores: Float[np.ndarray, " items"], k: int) -> tuple[np.ndarray, np.ndarray]:
    """Values and places of the min(k, items) best, best first, equal scores in the order of the items, as the evaluation
    has them. Raises InputError on scores that are not finite."""
    if not np.isfinite(scores).all():
        raise InputError("the model gives scores that are not finite for this query")
    k = min(k, len(scores))
    if not k:
        return scores[:0], np.empty(0, np.int64)
    threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
    reach = np.flatnonzero(scores >= threshold)
    places = reach[np.argsort(-scores[reach], kind="stable")][:k]
    return scores[places], places


def leaders(
    scores: Float[np.ndarray, " items"],
    kept: Bool[np.ndarray, " items"],
    k: int,
    alike: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> list[tuple[int, np.ndarray]]:
    """The places of at most k of the ``kept`` items, best first, each with those of the kept that are alike to it, better
    first, and to none before it. ``alike``: of the items at places (rows) to others (columns), bool.

    In the order of the scores, every item is compared with the leaders before it and no other.
    """
    ranked = np.flatnonzero(kept)
    ranked = ranked[np.argsort(-scores[ranked], kind="stable")]
    found, led = list[int](), np.full(len(ranked), -1)
    for start in range(0, len(ranked), _BLOCK):
        block, of = ranked[start : start + _BLOCK], led[start : start + _BLOCK]
        if found:
            same = alike(block, np.array(found))
            of[:] = np.where(same.any(axis=1), same.argmax(axis=1), -1)
        while len(found) < k and (of < 0).any():
            left = np.flatnonzero(of < 0)
            near = alike(block[left], block[left[:1]])[:, 0]
            near[0] = True
            of[left[near]] = len(found)
            found.append(int(block[left[0]]))
    return [(leader, ranked[led == number][1:]) for number, leader in enumerate(found)]
