"""Scores of queries against items in strips of whole rows, and their best items."""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse_pipe.core import console
from vse_pipe.ranking.fragments import Fused, Several, Sides, blocks, plain

# Rows or columns, as a slice or as numbers.
Some = slice | Tensor
# A function of images and captions, whose traits say which kind of sides it takes; ``Fused``, or a
# ``Cascade``, whose scores depend on all items of a query.
Similarity = Any
Rescore = Callable[[Tensor, slice], Tensor]
# A rescoring of any rows and some columns, given the columns.
Correction = Callable[[Tensor, slice], Tensor]

# Most rows of a strip on a CPU, and most scores of one.
STRIP, _LARGEST = 256, 1 << 26
_MIB = 1 << 20
# Scores are kept where those of all sets take less than this part of the memory: queries and a bank
# together one half.
_KEPT = 4


def strip_height(items: int, device: torch.device | None = None) -> int:
    """Rows of a strip of 2^26 scores at most; on a CPU, also by default, at most STRIP."""
    height = _LARGEST // max(1, items) or 1
    return height if device is not None and device.type != "cpu" else min(STRIP, height)


# Images and captions of a tile, the step of the progress bar; a similarity bounds its own memory.
_TILE = (128, 512)


def score_matrix(images: Sides, captions: Sides, similarity: Callable, memory: int) -> Float[Tensor, "images captions"]:
    """The scores of all images and captions: vectors at once, fragments in tiles."""
    if plain(images) and plain(captions):
        return similarity(images, captions).detach()
    matrix = empty_scores((len(images), len(captions)), memory, images.device)
    tiles = list(product(*map(blocks, matrix.shape, _TILE)))
    label = f"scoring {len(images)} images and {len(captions)} captions"
    for rows, columns in console.track(tiles, len(tiles), label):
        matrix[rows, columns] = similarity(images[rows], captions[columns]).detach()
    return matrix


def empty_scores(shape: tuple[int, int], memory: int, device: torch.device) -> Float[Tensor, "images captions"]:
    """Uninitialised scores, in a file above a quarter of ``memory`` MiB; 0: no limit."""
    rows, columns = shape
    if memory and rows * columns * 4 * _KEPT > memory * _MIB:
        # The map keeps the unnamed file open.
        with tempfile.TemporaryFile() as file:
            os.posix_fallocate(file.fileno(), 0, rows * columns * 4)  # a full disk is no bus error
            return torch.from_numpy(np.memmap(file, np.float32, "r+", shape=shape))
    return torch.empty(shape, device=device)


class Scores:
    """Scores of queries (rows) against items (columns), larger is better.

    Each pass makes them again unless they are kept. Memory use is some copies of a strip. notes:
    from a rescoring; strips: the rows that ``compute`` takes, by default of the usual height.

    product: scores of any queries with any items before all rescorings, where these are not kept;
    the transpose has the same one. correction: what turns a product into these scores, or into
    others that order the items of a query alike."""

    def __init__(
        self,
        shape: tuple[int, int],
        compute: Callable[[slice], Tensor],
        transpose: Callable[[], "Scores"] | None = None,
        notes: Mapping[str, float] | None = None,
        strips: Sequence[slice] = (),
    ) -> None:
        self.shape, self.notes = shape, notes or {}
        self.product: Callable[[Some, Some], Tensor] | None = None
        self.correction: Correction | None = None
        self._compute, self._transpose = compute, transpose
        self._strips = strips or blocks(shape[0], strip_height(shape[1]))

    @classmethod
    def from_sides(
        cls, queries: Sides, items: Sides, similarity: Similarity, memory: int = 0, sets: int = 1
    ) -> "Scores":
        """similarity: (B, D) and (N, D) to (B, N); its arguments have the kinds of the queries and
        of the items. With images as queries, ``transposed()`` gives text to image under the same
        function. Fragments are scored once, on first use, and kept.

        memory: MiB for the whole evaluation, 0 for no limit and nothing kept; sets: how many pairs
        of scores and bank share it, 0 to keep nothing."""
        if isinstance(similarity, Fused):
            return cls._from_fusion(queries, items, similarity, memory, sets)
        shape, device = (len(queries), len(items)), queries.device
        matrix = cache(partial(score_matrix, queries, items, similarity, memory))
        if not (plain(queries) and plain(items)):
            return cls._from_matrix(shape, matrix, device)
        if _fits(shape, memory, sets):
            return cls._from_matrix(shape, matrix, device)

        def backward(rows: slice) -> Tensor:
            return similarity(queries, items[rows]).T.contiguous()

        strips, columns = _strips(shape, device)
        scores = cls(shape, lambda rows: similarity(queries[rows], items), lambda: transposed, strips=strips)
        transposed = cls(shape[::-1], backward, lambda: scores, strips=columns)
        scores.product = transposed.product = lambda rows, columns: similarity(queries[rows], items[columns])
        return scores

    @classmethod
    def dense(cls, matrix: Float[Tensor, "queries items"]) -> "Scores":
        """From a matrix; its precision stays."""
        shape = (matrix.shape[0], matrix.shape[1])
        return cls(shape, lambda rows: matrix[rows], lambda: cls.dense(matrix.T.contiguous()))

    @classmethod
    def _from_fusion(cls, queries: Sides, items: Sides, similarity: Fused, memory: int, sets: int) -> "Scores":
        """Only the fused scores are kept, and those of fragments; they share the memory."""
        assert isinstance(queries, Several)
        assert isinstance(items, Several)
        share = max(1, memory // len(queries.parts)) if memory else 0
        sides = zip(similarity.similarities, queries.parts, items.parts, strict=True)
        parts = [cls.from_sides(a, b, score, memory if plain(a) else share, sets=0) for score, a, b in sides]
        shape = parts[0].shape
        is_kept = _fits(shape, memory, 2 * sets)

        def fused(parts: Sequence[Scores], transpose: Callable[[], Scores]) -> Scores:
            """The queries of either direction are combined along their own rows."""

            def combined(start: int, stop: int) -> Tensor:
                return similarity.combine(queries.weights, (part.strip(slice(start, stop)) for part in parts))

            strip = cache(combined) if is_kept else combined
            return cls(parts[0].shape, lambda rows: strip(rows.start, rows.stop), transpose, strips=parts[0].strips())

        scores = fused(parts, lambda: transposed)
        transposed = fused([part.transposed() for part in parts], lambda: scores)
        return scores

    @classmethod
    def _from_matrix(cls, shape: tuple[int, int], matrix: Callable[[], Tensor], device: torch.device) -> "Scores":
        """device: of the strips; a matrix in a file is on the CPU."""

        def forward(rows: slice) -> Tensor:
            return matrix()[rows].to(device)

        def backward(rows: slice) -> Tensor:
            return matrix()[:, rows].T.contiguous().to(device)

        strips, columns = _strips(shape, device)
        scores = cls(shape, forward, lambda: transposed, strips=strips)
        transposed = cls(shape[::-1], backward, lambda: scores, strips=columns)
        return scores

    def transposed(self) -> "Scores":
        """Items as queries. Raises ValueError after ``mapped``, which is along rows."""
        if self._transpose is None:
            raise ValueError("rescored scores have no transpose; transpose first, then rescore")
        return self._transpose()

    def mapped(
        self,
        rescore: Rescore,
        notes: Mapping[str, float] | None = None,
        correction: Correction | None = None,
    ) -> "Scores":
        """The scores after ``rescore(strip, rows)``, which gets (B, N) and its rows, keeps the
        shape, and must not write into the strip. correction: of any rows and some columns, which
        orders the items of a query alike."""
        rescored = Scores(self.shape, lambda rows: rescore(self.strip(rows), rows), notes=notes, strips=self._strips)
        if correction and not self.correction:
            rescored.product, rescored.correction = self.product, correction
        return rescored

    def take(self, chosen: Int[np.ndarray, " rows"]) -> "Scores":
        """Some rows, ascending, read from these scores: no value changes."""
        bounds = ((rows, np.searchsorted(chosen, (rows.start, rows.stop)).tolist()) for rows in self._strips)
        sources = {first: (rows, slice(first, last)) for rows, (first, last) in bounds if first < last}

        def strip(rows: slice) -> Tensor:
            source = sources[rows.start][0]
            values = self.strip(source)
            return values[torch.from_numpy(chosen[rows] - source.start).to(values.device)]

        return Scores((len(chosen), self.shape[1]), strip, strips=[part for _, part in sources.values()])

    def strips(self) -> Sequence[slice]:
        """The row slices that ``strip`` accepts."""
        return self._strips

    def strip(self, rows: slice) -> Float[Tensor, "rows items"]:
        """One of ``strips``, not to be written into."""
        return self._compute(rows)

    def blocks(self) -> Iterator[tuple[slice, Float[Tensor, "rows items"]]]:
        """All rows in order, a strip at a time."""
        return ((rows, self.strip(rows)) for rows in self.strips())


def _strips(shape: tuple[int, int], device: torch.device) -> tuple[list[slice], list[slice]]:
    """The strips of the rows, and of the columns as queries."""
    rows, columns = shape
    return blocks(rows, strip_height(columns, device)), blocks(columns, strip_height(rows, device))


def _fits(shape: tuple[int, int], memory: int, sets: int) -> bool:
    """Whether ``sets`` of scores may be kept in memory."""
    return 0 < sets * shape[0] * shape[1] * 4 * _KEPT <= memory * _MIB


def top_k(scores: Float[Tensor, "rows items"], k: int) -> tuple[Float[Tensor, "rows best"], Int[Tensor, "rows best"]]:
    """Values and columns of the min(k, items) best per row, best first, ties by ascending column.
    Entries of -inf count as absent: their columns are arbitrary.

    ``torch.topk`` leaves the order of ties open, so rows with a tie among the best k + 1 are chosen
    again."""
    k = min(k, scores.shape[1])
    values, columns = scores.topk(min(k + 1, scores.shape[1]))
    tied = ((values[:, 1:] == values[:, :-1]) & values[:, 1:].isfinite()).any(dim=1).nonzero()[:, 0]
    values, columns = values[:, :k].contiguous(), columns[:, :k].contiguous()
    if len(tied):
        columns[tied] = _first_of_ties(scores[tied], values[tied])
    return values, columns


def _first_of_ties(scores: Float[Tensor, "rows items"], values: Float[Tensor, "rows best"]) -> Int[Tensor, "rows best"]:
    """Columns by (score descending, column ascending); values: the k best scores."""
    lowest = values[:, -1:]
    above, equal = scores > lowest, scores == lowest
    room = values.shape[1] - above.sum(dim=1, keepdim=True)
    equal &= equal.cumsum(dim=1, dtype=torch.int32) <= room
    columns = (above | equal).nonzero()[:, 1].reshape(values.shape)
    order = scores.gather(1, columns).sort(dim=1, descending=True, stable=True).indices
    return columns.gather(1, order)


def mean_of_top(scores: Scores, k: int) -> Float[Tensor, " queries"]:
    """The mean of each query's min(k, items) largest scores: r of CSLS."""
    return torch.cat([top_k(strip, k)[0].mean(dim=1) for _, strip in scores.blocks()])


def ever_in_top(scores: Scores, k: int) -> Bool[Tensor, " items"]:
    """Whether the item is among the k best of any query."""
    columns = [top_k(strip, k)[1].flatten().unique() for _, strip in scores.blocks()]
    return torch.zeros(scores.shape[1], dtype=torch.bool, device=columns[0].device).index_fill(
        0, torch.cat(columns), True
    )
