"""A score matrix that is computed strip by strip and never held whole."""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor

# A product of float32 matrices changes in its last bits with the height of its left side. Every score is therefore
# computed in strips of this height at fixed rows, whatever block is asked for, so that no result depends on the block.
STRIP = 256

Similarity = Callable[[Tensor, Tensor], Tensor]
Rescore = Callable[[Tensor, slice], Tensor]


class Scores:
    """Scores of queries (rows) against items (columns), larger is better.

    Nothing is stored but what the scores are made from; each pass computes them again. Memory in use is that of one
    block plus one strip of STRIP rows. ``block`` is the height of what ``blocks`` yields and changes no value.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        compute: Callable[[slice], Tensor],
        block: int,
        transpose: Callable[[], "Scores"] | None = None,
    ) -> None:
        self.shape, self.block = shape, block
        self._compute, self._transpose = compute, transpose

    @classmethod
    def of(
        cls,
        queries: Float[Tensor, "queries dim"],
        items: Float[Tensor, "items dim"],
        similarity: Similarity,
        block: int = 1024,
    ) -> "Scores":
        """similarity: (B, D) and (N, D) to (B, N), of the queries' kind and the items' kind in this order. With
        images as queries, ``transposed()`` gives text to image under the same function."""
        # A fresh copy starts at an aligned address; the last bits of a product can depend on the alignment.
        left, right = queries.clone(), items.clone()

        def forward(rows: slice) -> Tensor:
            return similarity(left[rows], right)

        def backward(rows: slice) -> Tensor:
            return similarity(left, right[rows]).T.contiguous()

        def original() -> Scores:
            return cls((len(left), len(right)), forward, block, swapped)

        def swapped() -> Scores:
            return cls((len(right), len(left)), backward, block, original)

        return original()

    @classmethod
    def dense(cls, matrix: Float[Tensor, "queries items"], block: int = 1024) -> "Scores":
        """Of a matrix that is there already; its precision is kept."""

        def transpose() -> Scores:
            return cls.dense(matrix.T.contiguous(), block)

        return cls(tuple(matrix.shape), lambda rows: matrix[rows], block, transpose)

    def transposed(self) -> "Scores":
        """Items as queries. Raises ValueError after ``mapped``: a rescoring is defined along the rows it was made for."""
        if self._transpose is None:
            raise ValueError("rescored scores have no transpose; transpose first, then rescore")
        return self._transpose()

    def mapped(self, rescore: Rescore) -> "Scores":
        """The scores after ``rescore(strip, rows)``, which gets (B, N) and the rows it covers, and keeps the shape."""
        return Scores(self.shape, lambda rows: rescore(self._compute(rows), rows), self.block)

    def strips(self) -> Iterator[slice]:
        """The fixed row slices that ``strip`` accepts; sums over queries run along them."""
        for start in range(0, self.shape[0], STRIP):
            yield slice(start, min(start + STRIP, self.shape[0]))

    def strip(self, rows: slice) -> Float[Tensor, "rows items"]:
        """One of ``strips``, computed now."""
        return self._compute(rows)

    def blocks(self) -> Iterator[tuple[slice, Float[Tensor, "rows items"]]]:
        """All rows in order, ``block`` at a time (the last may be shorter)."""
        waiting: list[Tensor] = []
        start = held = 0
        for rows in self.strips():
            waiting.append(self._compute(rows))
            held += rows.stop - rows.start
            while held >= self.block or (held and rows.stop == self.shape[0]):
                size = min(self.block, held)
                yield slice(start, start + size), _take(waiting, size)
                start, held = start + size, held - size


def _take(waiting: list[Tensor], size: int) -> Tensor:
    """Remove the first ``size`` rows from a list of strips; a view where one strip is enough."""
    taken = []
    while size:
        first = waiting[0]
        taken.append(first[:size])
        size -= len(taken[-1])
        waiting[0] = first[len(taken[-1]) :]
        if not len(waiting[0]):
            del waiting[0]
    return taken[0] if len(taken) == 1 else torch.cat(taken)
