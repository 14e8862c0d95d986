"""Both directions in one pass: a product is made once, in tiles that stay in the processor's cache, and each tile is counted for its
images and for its captions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from pipeline.core import console, workers
from pipeline.ranking.compiled.threads import over_rows
from pipeline.ranking.engine.parts import Parts
from pipeline.ranking.engine.scores import Scores
from pipeline.ranking.metrics.positions import Ties, counted, descending
from pipeline.ranking.metrics.truth import Truth

# A tile's images and captions: 8 MiB of scores.
_HEIGHT, _WIDTH = 512, 4096
# Scores from which on this is worth its checks; items that are kept of a query, and correct items of one.
_FEWEST, _LONGEST, _CORRECT = 1 << 28, 128, 16
# Captions of a product at least: narrow ones have kernels of their own, whose last bits may differ.
_WIDE = 64
Found = tuple[Float[np.ndarray, " pairs"], Int[np.ndarray, "queries best"]]


def are_many(scores: Scores) -> bool:
    """Are they so many that one pass over tiles is worth its checks?"""
    return scores.parts is not None and scores.shape[0] * scores.shape[1] >= _FEWEST


def means(scores: Scores, k: int) -> Float[Tensor, " queries"] | None:
    """``top.mean_of_top``, which is then known of the other direction too. None where a pass over strips must tell."""
    parts = scores.parts
    if parts is None or parts.rescore or not are_many(scores):
        return None
    if k not in parts.means:
        sides = [scores.transposed(), scores] if parts.turned else [scores, scores.transposed()]
        if not _suit(sides, k):
            return None
        ways = [_Way.of(side, k) for side in sides]
        if not _passed(ways):
            return None
        parts.means[k] = (ways[0].means(), ways[1].means())
    return parts.means[k][parts.turned]


def ranked(sides: Sequence[Scores], truths: Sequence[Truth], ties: Ties, k: int) -> list[Found] | None:
    """Of images and of captions: the positions of all correct items as of ``metrics.positions``, and the k best items of all queries.

    sides: both directions of the same scores, each corrected as it may be. None where passes over strips must tell: of few scores, and
    where tiles differ in a bit from the strips or a score is not finite.
    """
    widest = max(np.diff(truth.starts).max(initial=0) for truth in truths)
    if not _suit(sides, k) or widest > _CORRECT:
        return None
    ways = [_Way.of(side, k, truth) for side, truth in zip(sides, truths, strict=True)]
    if not _passed(ways):
        return None
    return [(way.positions(ties), way.items.astype(np.int64)) for way in ways]


@dataclass
class _Way:
    """One direction. best, items: the best scores so far and their items; images, captions, correct: of the pairs that are correct, query
    by query with descending scores, and their scores; bounds: these by their number within the query, infinite where there are fewer; over,
    reached: how many scores are above them, and not below."""

    scores: Scores
    best: Float32[np.ndarray, "queries best"]
    items: Int[np.ndarray, "queries best"]
    images: Int[np.ndarray, " pairs"]
    captions: Int[np.ndarray, " pairs"]
    correct: Float32[np.ndarray, " pairs"]
    bounds: Float32[np.ndarray, "bounds queries"]
    over: Int[np.ndarray, "bounds queries"]
    reached: Int[np.ndarray, "bounds queries"]
    place: tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]
    tiles: tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]

    @classmethod
    def of(cls, scores: Scores, k: int, truth: Truth | None = None) -> "_Way":
        parts = scores.parts
        assert parts is not None
        best = np.full((scores.shape[0], min(k, scores.shape[1])), -np.inf, np.float32)
        truth = truth or Truth(np.zeros(len(best) + 1, np.int64), np.empty(0, np.int64), scores.shape[1])
        counts = np.diff(truth.starts)
        queries = np.repeat(np.arange(len(truth)), counts)
        pairs = (truth.items, queries) if parts.turned else (queries, truth.items)
        correct = _correct(parts, *pairs)
        order = descending(queries, correct)
        images, captions, correct = pairs[0][order], pairs[1][order], correct[order]
        place = (np.arange(len(queries)) - np.repeat(truth.starts[:-1], counts), queries)
        bounds = np.full((counts.max(initial=0), len(truth)), np.inf, np.float32)
        bounds[place] = correct
        over, reached = np.zeros((2, *bounds.shape), np.int32)
        tile = images // _HEIGHT * scores.shape[not parts.turned] + captions // _WIDTH
        by_tile = np.argsort(tile, kind="stable")
        tiles = (tile[by_tile], by_tile)
        return cls(
            scores, best, np.zeros(best.shape, np.int32), images, captions, correct, bounds, over, reached, place, tiles
        )

    @property
    def parts(self) -> Parts:
        assert self.scores.parts is not None
        return self.scores.parts

    def add(self, product: Tensor, images: slice, captions: slice) -> bool:
        """Whether the tile can be: all its scores are finite, and those of correct pairs what they are taken for."""
        from pipeline.ranking.compiled.tiles import of_columns, of_rows

        tile = self.parts.of(product, images, captions).numpy()
        known = self.bounds, self.over, self.reached, self.best, self.items
        finite: list[bool] = []

        def columns(start: int, stop: int) -> None:
            of_columns(tile, captions.start, images.start, *known, start, stop)

        def rows(start: int, stop: int) -> None:
            finite.append(of_rows(tile, images.start, captions.start, *known, start, stop))

        over_rows(columns if self.parts.turned else rows, tile.shape[self.parts.turned])
        number = images.start // _HEIGHT * self.scores.shape[not self.parts.turned] + captions.start // _WIDTH
        first, last = np.searchsorted(self.tiles[0], (number, number + 1))
        inside = self.tiles[1][first:last]
        there = tile[self.images[inside] - images.start, self.captions[inside] - captions.start]
        return all(finite) and np.array_equal(there, self.correct[inside])

    def means(self) -> Float[Tensor, " queries"]:
        """In strips, as ``top.mean_of_top``."""
        best = torch.from_numpy(self.best)
        return torch.cat([best[rows].mean(dim=1) for rows in self.scores.strips()])

    def positions(self, ties: Ties) -> Float[np.ndarray, " pairs"]:
        return counted(
            self.place[1], self.correct, ties, lambda strictly: (self.over if strictly else self.reached)[self.place]
        )


def _suit(sides: Sequence[Scores], k: int) -> bool:
    """Are these both directions of one product, on the CPU and of this process, and their tiles what the strips have?"""
    if workers.elsewhere() or k > _LONGEST or not all(map(are_many, sides)):
        return False
    one, other = (side.parts for side in sides)
    assert one is not None
    assert other is not None
    if one.product is not other.product or one.turned or not other.turned:
        return False
    return all(_alike(side) for side in sides)


def _alike(scores: Scores) -> bool:
    """Do the first and the last strip agree to the bit with the tiles at both their ends? Products of other shapes need not."""
    parts, strips = scores.parts, list(scores.strips())
    assert parts is not None
    height, width = (_WIDTH, _HEIGHT) if parts.turned else (_HEIGHT, _WIDTH)
    for rows in (strips[0], strips[-1]):
        strip = scores.strip(rows)
        if not strip.is_cpu or strip.dtype != torch.float32:
            return False
        queries = _around(rows.start, height, scores.shape[0])
        for items in (_around(0, width, scores.shape[1]), _around(scores.shape[1] - 1, width, scores.shape[1])):
            pair = (items, queries) if parts.turned else (queries, items)
            tile = parts.of(parts.product(*pair), *pair)
            tile = tile.T if parts.turned else tile
            if not torch.equal(tile[rows.start - queries.start : rows.stop - queries.start], strip[:, items]):
                return False
    return True


def _passed(ways: Sequence[_Way]) -> bool:
    """Every tile, images from first to last and for these all captions; False as soon as one cannot be."""
    images, captions = ways[0].scores.shape
    blocks = [_around(start, _HEIGHT, images) for start in range(0, images, _HEIGHT)]
    for rows in console.track(blocks, len(blocks), "images and captions, both ways"):
        for start in range(0, captions, _WIDTH):
            columns = _around(start, _WIDTH, captions)
            product = ways[0].parts.product(rows, columns)
            if not all(way.add(product, rows, columns) for way in ways):
                return False
    return True


def _correct(
    parts: Parts, images: Int[np.ndarray, " pairs"], captions: Int[np.ndarray, " pairs"]
) -> Float32[np.ndarray, " pairs"]:
    """Scores of single pairs, from products as wide as need be."""
    found = np.empty(len(images), np.float32)
    for pairs in _blocks(images):
        first = images[pairs].min() // _HEIGHT * _HEIGHT
        rows = slice(first, first + _HEIGHT)
        columns = torch.from_numpy(np.resize(captions[pairs], max(len(pairs), _WIDE)))
        part = parts.of(parts.product(rows, columns), rows, columns).numpy()
        found[pairs] = part[images[pairs] - first, np.arange(len(pairs))]
    return found


def _blocks(images: Int[np.ndarray, " pairs"]) -> Iterator[Int[np.ndarray, " some"]]:
    """Pairs whose images are of one tile, at most as many as it has captions."""
    order = np.argsort(images, kind="stable")
    edges = np.flatnonzero(np.diff(images[order] // _HEIGHT)) + 1
    for block in np.split(order, edges):
        for start in range(0, len(block), _WIDTH):
            yield block[start : start + _WIDTH]


def _around(place: int, size: int, end: int) -> slice:
    """The block of ``size`` that a row or column lies in."""
    start = place // size * size
    return slice(start, min(start + size, end))
