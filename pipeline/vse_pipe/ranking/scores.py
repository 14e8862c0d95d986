"""Scores of queries against items, computed in strips of fixed height, and in parts of any rows and columns."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from vse_pipe.core import workers
from vse_pipe.core.errors import UsageError
from vse_pipe.ranking.fragments import Fused, ScoreMatrix, Several, Sides, plain

# Rows or columns, as a slice or as numbers.
Some = slice | Tensor
RescorePart = Callable[[Tensor, Some, Some], Tensor]


@dataclass(frozen=True)
class Parts:
    """Parts of a score matrix without its strips. product: scores of images and captions, the same object for both
    directions; turned: the rows of these scores are the product's columns; rescore: a rescoring of the part, in the
    shape of these scores; memory: MiB for the whole evaluation, 0 for no limit; means: cached means of the best k of
    every image and of every caption, by k; fits: cached result of ``tiles.fit``."""

    product: Callable[[Some, Some], Tensor]
    turned: bool = False
    rescore: RescorePart | None = None
    memory: int = 0
    means: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    fits: list[bool] = field(default_factory=list)

    def room(self, size: int) -> bool:
        """Whether ``size`` bytes take less than half of the memory."""
        return not self.memory or 2 * size <= self.memory << 20

    def rescored(self, product: Tensor, images: Some, captions: Some) -> Tensor:
        """The scores, images along rows, of a part of ``product``."""
        if self.rescore is None:
            return product
        if self.turned:
            return self.rescore(product.T, captions, images).T.contiguous()
        return self.rescore(product, images, captions)


# The last bits of a float32 matrix product depend on the height of its left side. Scores are therefore computed in
# strips at fixed rows, with a height that follows from the number of items: no result depends on the block or on the
# memory.
STRIP = 256
_WIDEST = 1 << 18
# Copies of a strip in memory at once under the costliest criterion.
_COPIES = 6
_MIB = 1 << 20
# Share of the memory for scores of one direction: queries and a bank in both directions take one half.
_CACHE_SHARE = 8

# Its traits say which kind of sides it takes.
Similarity = Callable[[Any, Any], Tensor]
Rescore = Callable[[Tensor, slice], Tensor]
Result = TypeVar("Result")


def strip_height(items: int) -> int:
    """Rows of a strip: STRIP, fewer from 2^18 items on, so that a strip stays below 256 MiB."""
    height = STRIP
    while height > 1 and height * items > STRIP * _WIDEST:
        height //= 2
    return height


class Scores:
    """Scores of queries (rows) against items (columns), larger is better.

    Each pass computes them again unless they are cached. Memory use is some copies of a strip. notes: from a rescoring.
    strips_of: scores with the same strips; without it strips have one height. stored: strips are read from memory of
    this process, so no other process computes them."""

    def __init__(
        self,
        shape: tuple[int, int],
        compute: Callable[[slice], Tensor],
        transpose: Callable[[], "Scores"] | None = None,
        hold: bool = False,
        notes: Mapping[str, float] | None = None,
        strips_of: "Scores | None" = None,
        stored: bool = False,
    ) -> None:
        self._height = strip_height(shape[1])
        self.shape, self._strips_of = shape, strips_of
        self._stored: bool = stored or (strips_of is not None and strips_of._stored)
        self.notes = notes or {}
        self._compute, self._transpose = compute, transpose
        self._cache: dict[int, Tensor] | None = {} if hold else None
        # Scores of any rows with any columns, for items against themselves.
        self.submatrix: Callable[[Some, Some], Tensor] | None = None
        # For vectors without cached scores, and for rescorings with ``of_part``.
        self.parts: Parts | None = None

    @classmethod
    def from_sides(
        cls, queries: Sides, items: Sides, similarity: Similarity, memory: int = 0, sets: int = 1
    ) -> "Scores":
        """similarity: (B, D) and (N, D) to (B, N); its arguments have the kinds of the queries and of the items. With
        images as queries, ``transposed()`` gives text to image under the same function. Fragments are scored once, on
        first use, and cached.

        memory: MiB for the whole evaluation, 0 for no limit and no cache; sets: how many pairs of scores and bank share
        it, 0 for no cache. Scores that fit into an eighth of their share are cached. Raises UsageError where the memory
        is too small for one strip."""
        if isinstance(similarity, Fused):
            return cls._from_fusion(queries, items, similarity, memory, sets)
        if not (plain(queries) and plain(items)):
            return cls._from_matrix(ScoreMatrix(queries, items, similarity, memory), queries.device)
        left, right = _aligned(queries), _aligned(items)
        shape = (len(left), len(right))
        _must_take(shape, memory)
        hold = _fits(shape, memory, sets)

        def forward(rows: slice) -> Tensor:
            return similarity(left[rows], right)

        def backward(rows: slice) -> Tensor:
            return similarity(left, right[rows]).T.contiguous()

        scores = cls(shape, forward, lambda: transposed, hold)
        transposed = cls(shape[::-1], _turned(scores, backward) if hold else backward, lambda: scores, hold)
        if not hold:
            scores.parts = Parts(lambda rows, columns: similarity(left[rows], right[columns]), memory=memory)
            transposed.parts = replace(scores.parts, turned=True)
        if queries is items:
            scores.submatrix = lambda rows, columns: similarity(left[rows], right[columns])
        return scores

    @classmethod
    def dense(cls, matrix: Float[Tensor, "queries items"]) -> "Scores":
        """From a matrix; its precision stays."""
        shape = (matrix.shape[0], matrix.shape[1])
        return cls(shape, lambda rows: matrix[rows], lambda: cls.dense(matrix.T.contiguous()), stored=True)

    @classmethod
    def fused(
        cls, parts: "Sequence[Scores]", combine: Callable[[Iterable[Tensor]], Tensor], hold: bool = False
    ) -> "Scores":
        """``combine`` of the strips of several scores with the same queries and items. The queries of either direction
        are combined along their own rows."""

        def strips(parts: Sequence[Scores]) -> Callable[[slice], Tensor]:
            return lambda rows: combine(part.strip(rows) for part in parts)

        shape = parts[0].shape
        stored = any(part._stored for part in parts)
        scores = cls(shape, strips(parts), lambda: transposed, hold, stored=stored)
        turned = [part.transposed() for part in parts]
        transposed = cls(shape[::-1], strips(turned), lambda: scores, hold, stored=stored)
        return scores

    @classmethod
    def _from_fusion(cls, queries: Sides, items: Sides, similarity: Fused, memory: int, sets: int) -> "Scores":
        """Only the fused scores are cached. Scores of fragment models are cached too; they share the memory limit."""
        assert isinstance(queries, Several)
        assert isinstance(items, Several)
        share = max(1, memory // len(queries.parts)) if memory else 0
        sides = zip(similarity.similarities, queries.parts, items.parts, strict=True)
        parts = [cls.from_sides(a, b, score, memory if plain(a) else share, sets=0) for score, a, b in sides]
        shape = parts[0].shape
        _must_take(shape, memory)
        return cls.fused(parts, similarity.combine(queries.weights), _fits(shape, memory, sets))

    @classmethod
    def _from_matrix(cls, scored: ScoreMatrix, device: torch.device) -> "Scores":
        """device: of the strips; a matrix in a file is on the CPU."""

        def backward(rows: slice) -> Tensor:
            return scored.matrix[:, rows].T.contiguous().to(device)

        scores = cls(scored.shape, lambda rows: scored.matrix[rows].to(device), lambda: transposed, stored=True)
        transposed = cls(scored.shape[::-1], backward, lambda: scores, stored=True)
        return scores

    def transposed(self) -> "Scores":
        """Items as queries. Raises ValueError after ``mapped``: a rescoring is defined along its rows."""
        if self._transpose is None:
            raise ValueError("rescored scores have no transpose; transpose first, then rescore")
        return self._transpose()

    def mapped(
        self,
        rescore: Rescore,
        notes: Mapping[str, float] | None = None,
        stored: bool = False,
        of_part: RescorePart | None = None,
    ) -> "Scores":
        """The scores after ``rescore(strip, rows)``, which gets (B, N) and its rows, keeps the shape, and must not
        write into the strip. stored: it reads memory of this process; of_part: the same for any rows and columns."""
        rescored = Scores(
            self.shape, lambda rows: rescore(self.strip(rows), rows), notes=notes, strips_of=self, stored=stored
        )
        if self.parts and not self.parts.rescore and of_part:
            rescored.parts = replace(self.parts, rescore=of_part)
        return rescored

    def __getstate__(self) -> dict:
        """For another process: without the cache."""
        return {**self.__dict__, "_cache": None, "_transpose": None, "parts": None}

    def strips(self) -> Iterator[slice]:
        """The row slices that ``strip`` accepts."""
        if self._strips_of:
            yield from self._strips_of.strips()
            return
        for start in range(0, self.shape[0], self._height):
            yield slice(start, min(start + self._height, self.shape[0]))

    def wholes(self) -> list[slice]:
        """The strips that have the full height."""
        return [rows for rows in self.strips() if rows.stop - rows.start == self._height]

    def strip(self, rows: slice) -> Float[Tensor, "rows items"]:
        """One of ``strips``, not to be written into."""
        if self._cache is None:
            return self._compute(rows)
        if rows.start not in self._cache:
            self._cache[rows.start] = self._compute(rows)
        return self._cache[rows.start]

    def over_strips(self, part: Callable[[slice], Result]) -> Iterator[tuple[slice, Result]]:
        """``part(rows)`` for each of ``strips``, in order; ``part`` calls ``strip`` itself. It must have no side
        effects: other processes may run it, see ``core.workers``."""
        strips = list(self.strips())
        cost = _COPIES * 4 * self._height * self.shape[1]
        results = map(part, strips) if self._stored else workers.run_parts(partial(map, part), strips, cost)
        return zip(strips, results, strict=True)

    def blocks(self) -> Iterator[tuple[slice, Float[Tensor, "rows items"]]]:
        """All rows in order, a strip at a time."""
        return ((rows, self.strip(rows)) for rows in self.strips())


def _turned(scores: Scores, compute: Callable[[slice], Tensor]) -> Callable[[slice], Tensor]:
    """Strips of the transpose of cached scores, moved instead of computed again.

    Products with swapped sides may differ in their last bits. Scores must not depend on the cache, so all strips are
    computed where the first or the last whole strip differs from ``compute``. A shorter strip is always computed:
    narrow products have kernels of their own."""

    def moved(rows: slice) -> Tensor:
        return torch.cat([scores.strip(part)[:, rows] for part in scores.strips()]).T.contiguous()

    @cache
    def is_equal() -> bool:
        wholes = scores.transposed().wholes()
        return all(torch.equal(moved(rows), compute(rows)) for rows in wholes[:1] + wholes[1:][-1:])

    def strip(rows: slice) -> Tensor:
        return moved(rows) if rows in scores.transposed().wholes() and is_equal() else compute(rows)

    return strip


def _aligned(vectors: Shaped[Tensor, "rows dim"]) -> Shaped[Tensor, "rows dim"]:
    """Vectors at an aligned address; the last bits of a product can depend on the address of its factors."""
    return vectors if vectors.is_contiguous() and vectors.data_ptr() % 64 == 0 else vectors.clone()


def _fits(shape: tuple[int, int], memory: int, sets: int) -> bool:
    """Whether scores may be cached when ``sets`` share the memory; never where other processes compute them."""
    return 0 < sets * shape[0] * shape[1] * 4 * _CACHE_SHARE <= memory * _MIB and not workers.has_pool()


def _must_take(shape: tuple[int, int], memory: int) -> None:
    """Raises UsageError when ``memory`` MiB, unless 0, cannot hold the copies of a strip in either direction."""
    least = max(_COPIES * min(rows, strip_height(columns)) * columns * 4 for rows, columns in (shape, shape[::-1]))
    if memory and least > memory * _MIB:
        raise UsageError(
            f"evaluate.memory: {memory} MiB is too little to rank {shape[0]} against {shape[1]}; give at least {-(-least // _MIB)}"
        )


class Shuffled(Scores):
    """Scores with items in another order: item j is item ``order[j]`` of ``base``."""

    def __init__(self, base: Scores, order: Int[np.ndarray, " items"]) -> None:
        self.base, self.order = base, order
        super().__init__(base.shape, self._gathered, notes=base.notes, strips_of=base)

    def _gathered(self, rows: slice) -> Tensor:
        strip = self.base.strip(rows)
        return strip[:, torch.from_numpy(self.order).to(strip.device)]


def rows_of(scores: Scores, rows: slice, chosen: Int[Tensor, " some"]) -> Float[Tensor, "some items"]:
    """Some rows of a strip; for shuffled scores only the items of these rows are moved."""
    if not isinstance(scores, Shuffled):
        strip = scores.strip(rows)
        return strip[chosen.to(strip.device)]
    strip = rows_of(scores.base, rows, chosen)
    return strip[:, torch.from_numpy(scores.order).to(strip.device)]


class Chosen(Scores):
    """Some rows of other scores, ascending, read from the strips of ``base``, so that no value changes."""

    def __init__(self, base: Scores, rows: Int[np.ndarray, " rows"]) -> None:
        super().__init__((len(rows), base.shape[1]), base.strip, notes=base.notes, stored=base._stored)
        self._base, self._rows = base, rows
        bounds = ((part, *np.searchsorted(rows, (part.start, part.stop))) for part in base.strips())
        self._sources = {int(first): (base_rows, int(last)) for base_rows, first, last in bounds if first < last}

    def strips(self) -> Iterator[slice]:
        for first, (_, last) in self._sources.items():
            yield slice(first, last)

    def strip(self, rows: slice) -> Float[Tensor, "rows items"]:
        base_rows, _ = self._sources[rows.start]
        strip = self._base.strip(base_rows)
        return strip[torch.from_numpy(self._rows[rows] - base_rows.start).to(strip.device)]
