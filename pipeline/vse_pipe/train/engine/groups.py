"""The pairs of each image, end to end, for drawing some of them without a loop over images."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Groups:
    """owner: (pairs,) number of each pair's image, 0 ... count - 1; pairs: (pairs,) sorted by it; starts: (count + 1,)."""

    owner: np.ndarray
    pairs: np.ndarray
    starts: np.ndarray

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of(cls, owners: np.ndarray) -> "Groups":
        """owners: (pairs,) any ids."""
        _, owner, sizes = np.unique(owners, return_inverse=True, return_counts=True)
        return cls(owner, np.argsort(owner, kind="stable"), np.concatenate([[0], sizes.cumsum()]))

    def draw(
        self, images: np.ndarray, each: int, rng: np.random.Generator, without: np.ndarray | None = None
    ) -> np.ndarray:
        """Up to ``each`` random pairs of each of ``images``, none of them in ``without``; in the order of ``images``."""
        sizes = self.starts[images + 1] - self.starts[images]
        first = np.repeat(sizes.cumsum() - sizes, sizes)
        place = np.repeat(np.arange(len(images)), sizes)
        candidates = self.pairs[np.repeat(self.starts[images], sizes) + np.arange(sizes.sum()) - first]
        if without is not None:
            free = ~np.isin(candidates, without)
            candidates, place = candidates[free], place[free]
        order = np.lexsort([rng.random(len(candidates)), place])
        candidates, place = candidates[order], place[order]
        rank = np.arange(len(place)) - np.searchsorted(place, place)
        return candidates[rank < each]
