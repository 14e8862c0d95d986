"""Both directions in one pass over tiles of scores that are not kept: each product is made once for
its images and for its captions, and once more where it holds correct pairs, whose scores must be
known first."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import product

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse_pipe.core import console
from vse_pipe.core.errors import InputError
from vse_pipe.ranking.fragments import blocks
from vse_pipe.ranking.recall import Ties, Truth, counted, descending
from vse_pipe.ranking.scores import Scores, top_k

# Images and captions of a tile: 16 MiB of scores.
_IMAGES, _CAPTIONS = 1024, 4096
# Bytes of 0 and 1 add up without overflow.
_OF_A_BYTE = 255
# Where less than this part of a tile's queries need counting, these are copied.
_FEW = 8
# Rows and columns of a tile.
Places = tuple[slice, slice]
Ranks = tuple[Float[np.ndarray, " pairs"], Int[np.ndarray, "queries best"]]


def can_pass(sides: Sequence[Scores]) -> bool:
    """Whether both directions come from the same products, on the CPU."""
    multiply = sides[0].product
    if multiply is None or multiply is not sides[1].product:
        return False
    return multiply(slice(0, 1), slice(0, 1)).is_cpu


def ranked(sides: Sequence[Scores], truths: Sequence[Truth], ties: Ties, k: int) -> list[Ranks]:
    """For images and for captions: the positions of all correct items as in ``recall.positions``,
    and the k best items of all queries. sides: both directions of the same scores, each may be
    rescored, for which ``can_pass`` holds."""
    images, captions = sides[0].shape
    multiply = sides[0].product
    assert multiply is not None
    ways = [_Way(*side, ties, k, axis) for axis, side in enumerate(zip(sides, truths, strict=True))]
    tiles = list(product(blocks(images, _IMAGES), blocks(captions, _CAPTIONS)))
    product_of = lru_cache(maxsize=1)(lambda number: multiply(*tiles[number]))
    for number, places in enumerate(tiles):
        if any(way.has_correct(places) for way in ways):
            for way in ways:
                way.learn(product_of(number), places)
    for way in ways:
        way.sort()
    for number in console.track(range(len(tiles)), len(tiles), "images and captions, both ways"):
        for way in ways:
            way.add(product_of(number), tiles[number])
    return [way.ranking() for way in ways]


class _Way:
    """One direction, whose queries are the rows (axis 0) or the columns of a tile.

    queries: of each correct pair; correct: its score; place: its number within the query, and the
    query; numbers: of the scores counted so far, by place; best, items: the best scores of each
    query so far and their items. float64 holds scores of either precision."""

    def __init__(self, scores: Scores, truth: Truth, ties: Ties, k: int, axis: int) -> None:
        counts = np.diff(truth.starts)
        self.scores, self.truth, self.ties, self.axis = scores, truth, ties, axis
        self.queries, self.correct = np.repeat(np.arange(len(truth)), counts), np.empty(len(truth.items))
        self.place = np.arange(len(truth.items)) - np.repeat(truth.starts[:-1], counts), self.queries
        self.bounds = np.full((counts.max(initial=0), len(truth)), np.inf)
        self.numbers = np.zeros(self.bounds.shape, np.int64)
        self.best = np.full((len(truth), min(k, scores.shape[1])), -np.inf)
        self.items = np.zeros(self.best.shape, np.int64)

    def _pairs(self, places: Places) -> Int[np.ndarray, " some"]:
        """The correct pairs inside a tile."""
        queries, items = places[self.axis], places[1 - self.axis]
        pairs = np.arange(int(self.truth.starts[queries.start]), int(self.truth.starts[queries.stop]))
        columns = self.truth.items[pairs]
        return pairs[(columns >= items.start) & (columns < items.stop)]

    def has_correct(self, places: Places) -> bool:
        return len(self._pairs(places)) > 0

    def learn(self, tile: Tensor, places: Places) -> None:
        """Takes the scores of the correct pairs."""
        pairs, oriented = self._pairs(places), self._oriented(tile, places)
        rows = torch.from_numpy(self.queries[pairs] - places[self.axis].start)
        columns = torch.from_numpy(self.truth.items[pairs] - places[1 - self.axis].start)
        self.correct[pairs] = oriented[rows, columns].numpy()

    def sort(self) -> None:
        """Each query's best correct item first; ``learn`` has no more to come."""
        self.correct = self.correct[descending(self.queries, self.correct)]
        self.bounds[self.place] = self.correct

    def add(self, tile: Tensor, places: Places) -> None:
        """Counts a tile. Where the largest score of a query is below its bounds and its best so
        far, nothing changes. Raises InputError for scores that are not finite."""
        oriented, queries = self._oriented(tile, places), places[self.axis]
        highest = oriented.amax(dim=1)
        if not (highest.isfinite().all() and oriented.amin().isfinite()):
            raise InputError(f"scores of queries {queries.start} to {queries.stop - 1} hold NaN or infinite values")
        for turn, bounds in enumerate(self.bounds[:, queries].astype(highest.numpy().dtype)):
            asking = np.flatnonzero(highest.numpy() >= bounds)
            chosen = asking if _FEW * len(asking) < len(bounds) else slice(None)
            self.numbers[turn, queries][chosen] += _numbers_above(
                oriented.numpy()[chosen], bounds[chosen], self.ties == "optimistic"
            )
        rows, columns = self._candidates(oriented, self.best[queries, -1].astype(highest.numpy().dtype))
        if len(rows):
            self._improve(queries.start + rows, places[1 - self.axis].start + columns, oriented.numpy()[rows, columns])

    def _candidates(self, oriented: Tensor, bounds: Float[np.ndarray, " some"]) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of a tile's scores above the bounds, or of the best of a row."""
        above, k = oriented.numpy() > bounds[:, None], self.best.shape[1]
        if np.count_nonzero(above) > 2 * k * len(oriented):
            columns = top_k(oriented, k)[1].numpy()
            return np.repeat(np.arange(len(oriented)), columns.shape[1]), columns.ravel()
        places = np.divmod(
            np.flatnonzero(above.T if self.axis else above), len(bounds) if self.axis else above.shape[1]
        )
        return places[self.axis], places[1 - self.axis]

    def _improve(self, queries: np.ndarray, items: np.ndarray, scores: np.ndarray) -> None:
        """Lets each query keep the best of what it has and these; ties by ascending item."""
        asking, k = np.unique(queries), self.best.shape[1]
        queries = np.concatenate([np.repeat(asking, k), queries])
        items = np.concatenate([self.items[asking].ravel(), items])
        scores = np.concatenate([self.best[asking].ravel(), scores])
        order = np.lexsort((items, -scores, queries))
        place = np.arange(len(order)) - np.searchsorted(queries[order], queries[order])
        chosen = order[place < k]
        self.items[asking], self.best[asking] = items[chosen].reshape(-1, k), scores[chosen].reshape(-1, k)

    def _oriented(self, tile: Tensor, places: Places) -> Float[Tensor, "some items"]:
        """The tile's corrected scores with queries along its rows, in memory the other way."""
        oriented = tile.T if self.axis else tile
        return self.scores.correction(oriented, places[1 - self.axis]) if self.scores.correction else oriented

    def ranking(self) -> Ranks:
        return counted(self.queries, self.correct, self.ties, self.numbers[self.place]), self.items


def _numbers_above(
    values: Float[np.ndarray, "queries items"], bounds: Float[np.ndarray, " queries"], strictly: bool
) -> Int[np.ndarray, " queries"]:
    """For each query the number of its scores above the bound, or not below it without
    ``strictly``. Bytes are added, many at once whichever way the memory runs."""
    compare, numbers = np.greater if strictly else np.greater_equal, np.zeros(len(bounds), np.int64)
    for items in blocks(values.shape[1], _OF_A_BYTE):
        passes = compare(values[:, items], bounds[:, None]).view(np.uint8)
        numbers += np.add.reduce(passes, axis=1, dtype=np.uint8)
    return numbers
