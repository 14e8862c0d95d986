"""Both directions in one pass: each product is computed once, in tiles that stay in the processor's cache, and counted
for its images and for its captions. Also the best k items of queries."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int
from torch import Tensor

from vse_pipe.core import console, workers
from vse_pipe.ranking.fragments import over_rows
from vse_pipe.ranking.graded import COUNTS, counted, descending
from vse_pipe.ranking.recall import Ties, Truth
from vse_pipe.ranking.scores import Parts, Scores, Shuffled

# Images and captions of a tile: 8 MiB of scores. The last tile may be 1.5 times as high or wide, because the kernels
# for narrow products may give other last bits.
_HEIGHT, _WIDTH = 512, 4096
# Fewest scores that are worth the checks; most items per query, and most correct items per query.
_FEWEST, _LONGEST, _CORRECT = 1 << 28, 128, 16
# Fewest captions of a product.
_WIDE = 64
Places = int | np.integer | Int[np.ndarray, " pairs"]
Ranking = tuple[Float[np.ndarray, " pairs"], Int[np.ndarray, "queries best"]]


def fit(scores: Scores) -> bool:
    """Whether one pass over tiles is worth its checks and gives the strips' scores: unrescored scores, many of them, on
    the CPU, in this process. Checked once for both directions."""
    parts = scores.parts
    if parts is None or workers.has_pool() or scores.shape[0] * scores.shape[1] < _FEWEST:
        return False
    if not parts.fits:
        parts.fits.append(all(map(_agrees, (scores, scores.transposed()))))
        if not parts.fits[0]:
            console.say(
                "scores of tiles differ in their last bits from those of strips here: one pass for each direction"
            )
    return parts.fits[0]


def tile_means(scores: Scores, k: int) -> Float[Tensor, " queries"] | None:
    """``mean_of_top``, cached for the other direction too. None where strips are needed, also where the best of all
    queries, 4 k bytes each, would take more than half of ``evaluate.memory``."""
    parts = scores.parts
    if parts is None or parts.rescore or k > _LONGEST or not parts.room(4 * k * sum(scores.shape)) or not fit(scores):
        return None
    if k not in parts.means:
        sides = [scores.transposed(), scores] if parts.turned else [scores, scores.transposed()]
        ways = [_Way.begin(side, k) for side in sides]
        if not _passed(ways):
            return None
        parts.means[k] = (ways[0].means(), ways[1].means())
    return parts.means[k][parts.turned]


def ranked(sides: Sequence[Scores], truths: Sequence[Truth], ties: Ties, k: int) -> list[Ranking] | None:
    """For images and for captions: the positions of all correct items as in ``graded.positions``, and the k
    best items of all queries.

    sides: both directions of the same scores, which ``fit``; each may be rescored. None where strips are needed:
    rescored tiles differ in a bit from the strips, a score is not finite, or a query has many correct items."""
    first, second = (side.parts for side in sides)
    widest = max(np.diff(truth.starts).max(initial=0) for truth in truths)
    if first is None or second is None or first.product is not second.product or widest > _CORRECT:
        return None
    if not all(parts.rescore is None or _agrees(side) for parts, side in zip((first, second), sides, strict=True)):
        return None
    ways = [_Way.begin(side, k, truth) for side, truth in zip(sides, truths, strict=True)]
    if not _passed(ways):
        return None
    return [way.ranking(ties) for way in ways]


@dataclass
class _Way:
    """One direction of a pass. best, items: the best scores so far and their items (no items where only means are
    needed); images, captions, correct: the correct pairs, query by query with descending scores, and their scores;
    bounds: these scores by their number within the query, infinite where a query has fewer; over, reached: number of
    scores above each bound, and not below it; place: number and query of each pair; tiles: tile of each pair,
    ascending, and the pairs' order; rest: queries of a last strip that is shorter than a tile."""

    scores: Scores
    best: Float32[np.ndarray, "queries best"]
    items: Int[np.ndarray, "queries kept"]
    images: Int[np.ndarray, " pairs"]
    captions: Int[np.ndarray, " pairs"]
    correct: Float32[np.ndarray, " pairs"]
    bounds: Float32[np.ndarray, "bounds queries"]
    over: Int[np.ndarray, "bounds queries"]
    reached: Int[np.ndarray, "bounds queries"]
    place: tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]
    tiles: tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]
    rest: slice

    @classmethod
    def begin(cls, scores: Scores, k: int, truth: Truth | None = None) -> "_Way":
        """truth: None for means of the best scores."""
        parts = scores.parts
        assert parts is not None
        best = np.full((scores.shape[0], min(k, scores.shape[1])), -np.inf, np.float32)
        items = np.zeros(best.shape if truth else (len(best), 0), np.int32)
        truth = truth or Truth(np.zeros(len(best) + 1, np.int64), np.empty(0, np.int64), scores.shape[1])
        counts = np.diff(truth.starts)
        queries = np.repeat(np.arange(len(truth)), counts)
        pairs = (truth.items, queries) if parts.turned else (queries, truth.items)
        shape = scores.shape[::-1] if parts.turned else scores.shape
        rest = slice(scores.wholes()[-1].stop, len(best))
        inside = queries < rest.start
        correct = np.empty(len(queries), np.float32)
        correct[inside] = _correct(parts, shape, pairs[0][inside], pairs[1][inside])
        if not inside.all():
            correct[~inside] = scores.strip(rest).numpy()[queries[~inside] - rest.start, truth.items[~inside]]
        order = descending(queries, correct)
        images, captions, correct = pairs[0][order], pairs[1][order], correct[order]
        place = (np.arange(len(queries)) - np.repeat(truth.starts[:-1], counts), queries)
        bounds = np.full((counts.max(initial=0), len(truth)), np.inf, np.float32)
        bounds[place] = correct
        over, reached = np.zeros((2, *bounds.shape), np.int32)
        tile = np.where(inside, _tile(images, captions, shape), -1)
        by_tile = np.argsort(tile, kind="stable")
        tiles = (tile[by_tile], by_tile)
        return cls(scores, best, items, images, captions, correct, bounds, over, reached, place, tiles, rest)

    @property
    def parts(self) -> Parts:
        assert self.scores.parts is not None
        return self.scores.parts

    def add(self, product: Tensor, images: slice, captions: slice) -> bool:
        """Counts a tile; False where a score is not finite or a correct pair has another score than expected."""
        from vse_pipe.ranking.kernels import of_columns, of_rows

        tile = self.parts.rescored(product, images, captions).numpy()
        counters = self.bounds, self.over, self.reached, self.best, self.items
        finite: list[bool] = []

        def columns(start: int, stop: int) -> None:
            finite.append(of_columns(tile, captions.start, images.start, *counters, start, stop))

        def rows(start: int, stop: int) -> None:
            finite.append(of_rows(tile, images.start, captions.start, *counters, start, stop))

        over_rows(columns if self.parts.turned else rows, tile.shape[self.parts.turned])
        shape = self.scores.shape[::-1] if self.parts.turned else self.scores.shape
        number = int(_tile(images.start, captions.start, shape))
        first, last = np.searchsorted(self.tiles[0], (number, number + 1))
        inside = self.tiles[1][first:last]
        scores = tile[self.images[inside] - images.start, self.captions[inside] - captions.start]
        return all(finite) and np.array_equal(scores, self.correct[inside])

    def finish(self) -> bool:
        """Counts the queries of ``rest`` again by their strip, after all tiles; False where a score is not finite."""
        from vse_pipe.ranking.kernels import of_rows

        if self.rest.start == self.rest.stop:
            return True
        self.best[self.rest] = -np.inf
        self.over[:, self.rest] = self.reached[:, self.rest] = 0
        strip = self.scores.strip(self.rest).numpy()
        counters = self.bounds, self.over, self.reached, self.best, self.items
        return of_rows(strip, self.rest.start, 0, *counters, 0, len(strip))

    def means(self) -> Float[Tensor, " queries"]:
        """In strips, as ``mean_of_top``."""
        best = torch.from_numpy(self.best)
        return torch.cat([best[rows].mean(dim=1) for rows in self.scores.strips()])

    def ranking(self, ties: Ties) -> Ranking:
        numbers = [(self.over if strictly else self.reached)[self.place] for strictly in COUNTS[ties]]
        return counted(self.place[1], self.correct, ties, numbers), self.items.astype(np.int64)


def _agrees(scores: Scores) -> bool:
    """Whether the first and the last whole strip equal the tiles at their ends to the bit."""
    parts, wholes = scores.parts, scores.wholes()
    assert parts is not None
    height, width = (_WIDTH, _HEIGHT) if parts.turned else (_HEIGHT, _WIDTH)
    for rows in wholes[:1] + wholes[-1:]:
        strip = scores.strip(rows)
        if not strip.is_cpu or strip.dtype != torch.float32:
            return False
        queries = _around(rows.start, height, scores.shape[0])
        for items in (_around(0, width, scores.shape[1]), _around(scores.shape[1] - 1, width, scores.shape[1])):
            pair = (items, queries) if parts.turned else (queries, items)
            tile = parts.rescored(parts.product(*pair), *pair)
            tile = tile.T if parts.turned else tile
            if not torch.equal(tile[rows.start - queries.start : rows.stop - queries.start], strip[:, items]):
                return False
    return bool(wholes)


def _passed(ways: Sequence[_Way]) -> bool:
    """Counts every tile, images first; False as soon as a tile cannot be counted."""
    images, captions = ways[0].scores.shape
    blocks = [_around(place * _HEIGHT, _HEIGHT, images) for place in range(_count(images, _HEIGHT))]
    for rows in console.track(blocks, len(blocks), "images and captions, both ways"):
        for place in range(_count(captions, _WIDTH)):
            columns = _around(place * _WIDTH, _WIDTH, captions)
            product = ways[0].parts.product(rows, columns)
            if not all(way.add(product, rows, columns) for way in ways):
                return False
    return all(way.finish() for way in ways)


def _correct(
    parts: Parts, shape: tuple[int, int], images: Int[np.ndarray, " pairs"], captions: Int[np.ndarray, " pairs"]
) -> Float32[np.ndarray, " pairs"]:
    """Scores of single pairs, from products as high as tiles and as narrow as possible."""
    values = np.empty(len(images), np.float32)
    for pairs in _blocks(images, shape[0]):
        rows = _around(int(images[pairs[0]]), _HEIGHT, shape[0])
        columns = torch.from_numpy(np.resize(captions[pairs], -(-len(pairs) // _WIDE) * _WIDE))
        part = parts.rescored(parts.product(rows, columns), rows, columns).numpy()
        values[pairs] = part[images[pairs] - rows.start, np.arange(len(pairs))]
    return values


def _blocks(images: Int[np.ndarray, " pairs"], end: int) -> Iterator[Int[np.ndarray, " some"]]:
    """Groups of pairs whose images lie in one tile, at most as many pairs as a tile has captions."""
    order = np.argsort(images, kind="stable")
    edges = np.flatnonzero(np.diff(_number(images[order], _HEIGHT, end))) + 1
    for block in np.split(order, edges) if len(order) else ():
        for start in range(0, len(block), _WIDTH):
            yield block[start : start + _WIDTH]


def _count(end: int, size: int) -> int:
    """The number of blocks of ``size``; the last takes in a rest shorter than half a block."""
    return max(1, (end + size // 2) // size)


def _number(place: Places, size: int, end: int) -> Places:
    """The number of the block of rows or columns."""
    return np.minimum(place // size, _count(end, size) - 1)


def _tile(images: Places, captions: Places, shape: tuple[int, int]) -> Places:
    return _number(images, _HEIGHT, shape[0]) * shape[1] + _number(captions, _WIDTH, shape[1])


def _around(place: int, size: int, end: int) -> slice:
    """The block of a row or column."""
    number = int(_number(place, size, end))
    return slice(number * size, end if number == _count(end, size) - 1 else (number + 1) * size)


# The compiled loop is faster than torch.topk for long lists, and for long rows.
_LONG_LIST, _LONG_ROW = 64, 1 << 14
_COMPILED = (torch.float32, torch.float64)


def top_k(
    scores: Float[Tensor, "rows items"], k: int, priority: Int[np.ndarray, " items"] | None = None
) -> tuple[Float[Tensor, "rows best"], Int[Tensor, "rows best"]]:
    """Values and columns of the min(k, items) best per row, best first, ties by ascending ``priority`` (by default by
    ascending column). Entries of -inf count as absent: their columns are arbitrary.

    ``torch.topk`` leaves the order of ties open, so rows with a tie among the best k + 1 are chosen again. A compiled
    loop replaces it where it is faster."""
    k = min(k, scores.shape[1])
    if scores.is_cpu and scores.dtype in _COMPILED and (k >= _LONG_LIST or scores.shape[1] >= _LONG_ROW):
        best = _compiled(scores, k, priority)
        if best is not None:
            return best
    if priority is not None:
        order = torch.from_numpy(np.argsort(priority)).to(scores.device)
        values, places = top_k(scores[:, order], k)
        return values, order[places]
    values, columns = scores.topk(min(k + 1, scores.shape[1]))
    tied = ((values[:, 1:] == values[:, :-1]) & values[:, 1:].isfinite()).any(dim=1).nonzero()[:, 0]
    values, columns = values[:, :k].contiguous(), columns[:, :k].contiguous()
    if len(tied):
        columns[tied] = _first_of_ties(scores[tied], values[tied])
    return values, columns


def best_of(scores: Scores, rows: slice, k: int) -> tuple[Float[Tensor, "rows best"], Int[Tensor, "rows best"]]:
    """``top_k`` of a strip, without moving the items of shuffled scores."""
    if not isinstance(scores, Shuffled):
        return top_k(scores.strip(rows), k)
    places = np.argsort(scores.order)
    values, columns = top_k(scores.base.strip(rows), k, places)
    return values, torch.from_numpy(places).to(columns.device)[columns]


def _compiled(scores: Tensor, k: int, priority: np.ndarray | None) -> tuple[Tensor, Tensor] | None:
    """None where an entry is not finite."""
    from vse_pipe.ranking.kernels import select

    rows = scores.contiguous().numpy()
    best, columns = np.empty((len(rows), k), rows.dtype), np.empty((len(rows), k), np.int64)
    order = np.arange(rows.shape[1]) if priority is None else priority
    finite: list[bool] = []
    over_rows(lambda start, stop: finite.append(select(rows, k, order, best, columns, start, stop)), len(rows))
    return (torch.from_numpy(best), torch.from_numpy(columns)) if all(finite) else None


def _first_of_ties(scores: Float[Tensor, "rows items"], values: Float[Tensor, "rows best"]) -> Int[Tensor, "rows best"]:
    """Columns in the order (score descending, column ascending); values: the k best scores, sorted."""
    lowest = values[:, -1:]
    above, equal = scores > lowest, scores == lowest
    room = values.shape[1] - above.sum(dim=1, keepdim=True)
    equal &= equal.cumsum(dim=1, dtype=torch.int32) <= room
    columns = (above | equal).nonzero()[:, 1].reshape(values.shape)
    order = scores.gather(1, columns).sort(dim=1, descending=True, stable=True).indices
    return columns.gather(1, order)


def mean_of_top(scores: Scores, k: int) -> Float[Tensor, " queries"]:
    """The mean of each query's min(k, items) largest scores: r of CSLS, MUSE's ``get_nn_avg_dist``."""
    if (means := tile_means(scores, k)) is not None:
        return means
    # Filled in place, because small results between large strips would prevent reuse of the strips' memory.
    means = torch.empty(0)
    for rows, of_strip in scores.over_strips(lambda rows: top_k(scores.strip(rows), k)[0].mean(dim=1)):
        means = means if len(means) else of_strip.new_empty(scores.shape[0])
        means[rows] = of_strip
    return means


def ever_in_top(scores: Scores, k: int) -> Bool[Tensor, " items"]:
    """Whether the item is among the k best of any query."""
    chosen = torch.empty(0, dtype=torch.bool)
    for _, columns in scores.over_strips(lambda rows: top_k(scores.strip(rows), k)[1].flatten()):
        chosen = chosen if len(chosen) else columns.new_zeros(scores.shape[1], dtype=torch.bool)
        chosen[columns] = True
    return chosen
