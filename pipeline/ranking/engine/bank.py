"""The query bank: which queries' scores correct the hubs among the items that are ranked."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from pipeline.core.errors import InputError
from pipeline.ranking.engine.scores import Scores


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

        def rescore(strip: Float[Tensor, "rows items"], rows: slice) -> Float[Tensor, "rows items"]:
            return torch.add(-self.bias.to(strip), strip, alpha=self.scale)

        return scores.mapped(rescore, self.notes)


def log_sum_exp(scores: Scores, beta: float, but_itself: bool = False) -> Float[Tensor, " items"]:
    """``log sum_q e^{beta s(q, n)}`` over the rows for each item n, in one pass; within a strip in the precision of the
    scores, over the strips in float64.

    but_itself: leave out the diagonal; rows and columns are the same things. Raises InputError without a row to sum.
    """
    if scores.shape[0] <= int(but_itself):
        raise InputError("the bank is empty: nothing to sum over")

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
