"""Both directions in one pass over tiles of scores that are not kept: each product is made once for its images and for its
captions, and once more where it holds correct pairs, whose scores must be known first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse_pipe.core import console, workers
from vse_pipe.core.errors import InputError
from vse_pipe.ranking.fragments import blocks
from vse_pipe.ranking.graded import COUNTS, counted, descending, number_above
from vse_pipe.ranking.recall import Ties, Truth
from vse_pipe.ranking.scores import Scores, top_k

# Images and captions of a tile: 64 MiB of scores.
_IMAGES, _CAPTIONS = 2048, 8192
Ranking = tuple[Float[np.ndarray, " pairs"], Int[np.ndarray, "queries best"]]


def can_pass(sides: Sequence[Scores]) -> bool:
    """Whether both directions come from the same products, item by item, in this process."""
    return sides[0].product is not None and sides[0].product is sides[1].product and not workers.has_pool()


def ranked(sides: Sequence[Scores], truths: Sequence[Truth], ties: Ties, k: int) -> list[Ranking]:
    """For images and for captions: the positions of all correct items as in ``graded.positions``, and the k best items
    of all queries. sides: both directions of the same scores, each may be rescored, for which ``can_pass`` holds."""
    images, captions = sides[0].shape
    multiply = sides[0].product
    assert multiply is not None
    ways = [_Way.begin(*side, ties, k) for side in zip(sides, truths, strict=True)]
    tiles = list(product(blocks(images, _IMAGES), blocks(captions, _CAPTIONS)))
    made = lru_cache(maxsize=1)(lambda number: multiply(*tiles[number]))

    def oriented(number: int) -> Iterator[tuple[_Way, Tensor, slice, slice]]:
        rows, columns = tiles[number]
        yield ways[0], made(number), rows, columns
        yield ways[1], made(number).T.contiguous(), columns, rows

    for number, (rows, columns) in enumerate(tiles):
        if ways[0].has_correct(rows, columns) or ways[1].has_correct(columns, rows):
            for way, tile, queries, items in oriented(number):
                way.learn(tile, queries, items)
    for way in ways:
        way.sort()
    for number in console.track(range(len(tiles)), len(tiles), "images and captions, both ways"):
        for way, tile, queries, items in oriented(number):
            way.add(tile, queries, items)
    return [way.ranking() for way in ways]


@dataclass
class _Way:
    """One direction. queries: of each correct pair; correct: its score; numbers: the counts of ``COUNTS`` so far; best,
    items: the best scores of each query so far and their items."""

    scores: Scores
    truth: Truth
    ties: Ties
    queries: Int[np.ndarray, " pairs"]
    correct: Float[np.ndarray, " pairs"]
    numbers: list[Int[np.ndarray, " pairs"]]
    best: Float[Tensor, "queries best"]
    items: Int[Tensor, "queries best"]

    @classmethod
    def begin(cls, scores: Scores, truth: Truth, ties: Ties, k: int) -> "_Way":
        queries, pairs = np.repeat(np.arange(len(truth)), np.diff(truth.starts)), len(truth.items)
        numbers = [np.zeros(pairs, np.int64) for _ in COUNTS[ties]]
        shape = (scores.shape[0], min(k, scores.shape[1]))
        # float64 holds scores of either precision.
        best, items = torch.full(shape, -torch.inf, dtype=torch.float64), torch.zeros(shape, dtype=torch.int64)
        return cls(scores, truth, ties, queries, np.empty(pairs), numbers, best, items)

    def _pairs(self, queries: slice, items: slice) -> Int[np.ndarray, " some"]:
        """The correct pairs inside a tile."""
        own = np.arange(self.truth.starts[queries.start], self.truth.starts[queries.stop])
        columns = self.truth.items[own]
        return own[(columns >= items.start) & (columns < items.stop)]

    def has_correct(self, queries: slice, items: slice) -> bool:
        return len(self._pairs(queries, items)) > 0

    def learn(self, tile: Float[Tensor, "some items"], queries: slice, items: slice) -> None:
        """Takes the scores of the correct pairs."""
        pairs, tile = self._pairs(queries, items), self._corrected(tile, items)
        rows, columns = self.queries[pairs] - queries.start, self.truth.items[pairs] - items.start
        self.correct[pairs] = tile[torch.from_numpy(rows), torch.from_numpy(columns)].cpu().numpy()

    def sort(self) -> None:
        """Each query's best correct item first; ``learn`` has no more to come."""
        self.correct = self.correct[descending(self.queries, self.correct)]

    def add(self, tile: Float[Tensor, "some items"], queries: slice, items: slice) -> None:
        """Counts a tile. A query whose largest score there is below its correct items, or its best so far, need not be
        looked at. Raises InputError for scores that are not finite."""
        tile = self._corrected(tile, items)
        highest = tile.amax(dim=1)
        if not (highest.isfinite().all() and tile.amin().isfinite()):
            raise InputError(f"scores of queries {queries.start} to {queries.stop - 1} hold NaN or infinite values")
        pairs = slice(self.truth.starts[queries.start], self.truth.starts[queries.stop])
        highest = highest.cpu()
        rows, bounds = self.queries[pairs] - queries.start, self.correct[pairs].astype(highest.numpy().dtype)
        asking = np.flatnonzero(highest.numpy()[rows] >= bounds)
        for strictly, numbers in zip(COUNTS[self.ties], self.numbers, strict=True):
            numbers[pairs.start + asking] += number_above(tile, rows[asking], bounds[asking], strictly)
        best = self.best[queries]
        improving = (highest > best[:, -1]).nonzero()[:, 0]
        values, columns = (found.cpu() for found in top_k(tile[improving.to(tile.device)], best.shape[1]))
        # Items of earlier tiles come first among equal scores.
        merged, chosen = top_k(torch.cat([best[improving], values], dim=1), best.shape[1])
        numbered = torch.cat([self.items[queries][improving], columns + items.start], dim=1)
        self.best[queries.start + improving], self.items[queries.start + improving] = merged, numbered.gather(1, chosen)

    def _corrected(self, tile: Tensor, items: slice) -> Tensor:
        return self.scores.correction(tile, items) if self.scores.correction else tile

    def ranking(self) -> Ranking:
        return counted(self.queries, self.correct, self.ties, self.numbers), self.items.numpy()
