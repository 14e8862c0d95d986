"""The query bank: which queries' scores correct the hubs among the items that are ranked."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from pipeline.core import workers
from pipeline.core.errors import InputError
from pipeline.ranking.engine.parts import Some
from pipeline.ranking.engine.scores import STRIP, Scores, strip_height

# Strips from which on half of the products are worth a check of symmetry.
_MANY_STRIPS = 16
_ALL = slice(None)


@dataclass(frozen=True)
class Bank:
    """queries: the bank's queries (rows) against the items that are ranked (columns).

    own: the bank is the very queries that are ranked (transductive, the protocol of the papers). Otherwise it is a set
    of its own (inductive, what a system in use can do) and no query's result depends on another's.
    gallery: the bank's items (rows) against the items that are ranked, both of the same kind; None where there are
    scores only and no vectors.
    """

    queries: Scores
    own: bool
    gallery: Callable[[], Scores] | None = None

    def items(self) -> Scores:
        """Raises InputError where a criterion asks for a gallery bank and there are no vectors to make one from."""
        if self.gallery is None:
            raise InputError("the criterion compares items with items and there are only scores; give embeddings")
        return self.gallery()


@dataclass(frozen=True)
class ItemBias:
    """The score ``scale * s(q, n) - bias_n``: the shape of every criterion that corrects items one by one.

    notes: how the bias came about, for the metrics.
    """

    scale: float
    bias: Float[Tensor, " items"]
    notes: dict[str, float] = field(default_factory=dict)

    def apply(self, scores: Scores) -> Scores:
        """In the precision of the scores, in which ``bias`` is as exact as they are."""

        def rescore(part: Tensor, rows: Some, columns: Some = _ALL) -> Tensor:
            return torch.add(-self.bias[columns].to(part), part, alpha=self.scale)

        return scores.mapped(rescore, self.notes, of_part=rescore)

    def at(
        self, scores: Float32[np.ndarray, "*pairs"], items: Int[np.ndarray, "*pairs"]
    ) -> Float32[np.ndarray, "*pairs"]:
        """The same of single pairs."""
        bias = self.bias.cpu().numpy().astype(np.float32)
        return np.float32(self.scale) * scores - bias[items]


def log_sum_exp(scores: Scores, beta: float, but_itself: bool = False) -> Float[Tensor, " items"]:
    """``log sum_q e^{beta s(q, n)}`` over the rows for each item n, in one pass; within a strip in the precision of the
    scores, over the strips in float64.

    but_itself: leave out the diagonal; rows and columns are the same things. Raises InputError without a row to sum.
    """
    if scores.shape[0] <= int(but_itself):
        raise InputError("the bank is empty: nothing to sum over")
    if scores.right_of is not None and not workers.elsewhere() and _is_symmetric(scores):
        return _of_halves(scores, scores.right_of, beta, but_itself)

    def summed(rows: slice) -> Float[Tensor, " items"]:
        exponents = scores.strip(rows) * beta
        if but_itself:
            exponents[:, rows].fill_diagonal_(-torch.inf)
        return exponents.logsumexp(dim=0).double()

    total = None
    for _, part in scores.each(summed):
        total = part if total is None else torch.logaddexp(total, part)
    assert total is not None
    return total


def _is_symmetric(scores: Scores) -> bool:
    """To the bit, as far as some strips tell; False where checking would cost what it saves, and of lower strips, whose
    halves would be slower than all products, and not theirs to the bit."""
    assert scores.right_of is not None
    wholes = scores.wholes()
    if len(wholes) < _MANY_STRIPS or strip_height(scores.shape[1]) < STRIP:
        return False
    some = [wholes[0], wholes[len(wholes) // 2], wholes[-1], *list(scores.strips())[len(wholes) :]]
    known = [scores.strip(rows) for rows in some]
    turned = all(
        torch.equal(known[i][:, some[j]], known[j][:, some[i]].T) for i, j in combinations(range(len(some)), 2)
    )
    return turned and torch.equal(scores.right_of(some[1]), known[1][:, some[1].start :])


def _of_halves(
    scores: Scores, right_of: Callable[[slice], Tensor], beta: float, but_itself: bool
) -> Float[Tensor, " items"]:
    """``log_sum_exp`` to the bit, with each pair scored once: what lies left of the diagonal is turned over from the right of it,
    and every item meets the strips in their order."""
    total, strips = None, list(scores.strips())
    for place, rows in enumerate(strips):
        # Narrow products have kernels of their own.
        near = scores.shape[1] - rows.start < _MANY_STRIPS * STRIP // 4
        right = scores.strip(rows)[:, rows.start :] if near else right_of(rows)
        total = right.new_full((scores.shape[1],), -torch.inf, dtype=torch.float64) if total is None else total
        exponents = right * beta
        if but_itself:
            exponents[:, : len(right)].fill_diagonal_(-torch.inf)
        total[rows.start :] = torch.logaddexp(total[rows.start :], exponents.logsumexp(dim=0).double())
        for later in strips[place + 1 :]:
            below = right[:, later.start - rows.start : later.stop - rows.start].T.contiguous() * beta
            total[rows] = torch.logaddexp(total[rows], below.logsumexp(dim=0).double())
    assert total is not None
    return total
