"""The query bank: which queries' scores correct the hubs among the items that are ranked."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.core.errors import InputError
from vse_pipe.ranking.engine import columns
from vse_pipe.ranking.engine.parts import Some
from vse_pipe.ranking.engine.scores import Scores

# Strips from which on half of the products are worth a check of symmetry.
_MANY_STRIPS = 16
# Items, of all, whose scores among themselves are looked at for that.
_SAMPLE = 256
# Of the largest score: by how much the scores of a pair may differ one way and the other.
_ROUNDING = 1e-5
_ALL = slice(None)


@dataclass(frozen=True)
class Bank:
    """queries: the bank's queries (rows) against the items that are ranked (columns).

    own: the bank is the very queries that are ranked (transductive, the protocol of the papers). Otherwise it is a set
    of its own (inductive, what a system in use can do) and no query's result depends on another's.
    gallery: the bank's items (rows) against the items that are ranked, both of the same kind; None where there are
    scores only and no vectors. sums: what ``log_sum`` has made.
    """

    queries: Scores
    own: bool
    gallery: Callable[[], Scores] | None = None
    sums: dict[tuple[float, bool], Float[Tensor, " items"]] = field(default_factory=dict, repr=False)

    def log_sum(self, beta: float, of_gallery: bool = False) -> Float[Tensor, " items"]:
        """``log_sum_exp`` over the bank's queries, or over its items but for the ranked item itself, made once for each beta, whichever
        criteria ask."""
        key = beta, of_gallery
        if key not in self.sums:
            rows = self.items() if of_gallery else self.queries
            self.sums[key] = log_sum_exp(rows, beta, but_itself=of_gallery and self.own)
        return self.sums[key]

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


def log_sum_exp(scores: Scores, beta: float, but_itself: bool = False) -> Float[Tensor, " items"]:
    """``log sum_q e^{beta s(q, n)}`` over the rows for each item n, in one pass; within a strip in the precision of the
    scores, over the strips in float64. Of items against themselves each pair is scored once where that is worth it.

    but_itself: leave out the diagonal; rows and columns are the same things. Raises InputError without a row to sum.
    """
    if scores.shape[0] <= int(but_itself):
        raise InputError("the bank is empty: nothing to sum over")
    among = scores.among if _is_symmetric(scores) else None

    def summed(rows: slice) -> Float[Tensor, " items"]:
        first = rows.start if among else 0
        exponents = (among(rows, slice(first, None)) if among else scores.strip(rows)) * beta
        height = rows.stop - rows.start
        if but_itself:
            exponents[:, rows.start - first :][:, :height].fill_diagonal_(-torch.inf)
        found = exponents.new_full((scores.shape[1],), -torch.inf, dtype=torch.float64)
        found[first:] = columns.log_sum_exp(exponents)
        if among:
            found[rows] = torch.logaddexp(found[rows], exponents[:, height:].logsumexp(dim=1).double())
        return found

    total = None
    for _, part in scores.each(summed):
        total = part if total is None else torch.logaddexp(total, part)
    assert total is not None
    return total


def _is_symmetric(scores: Scores) -> bool:
    """But for rounding, as far as items from first to last tell; False where checking would cost what it saves."""
    if scores.among is None or len(scores.wholes()) < _MANY_STRIPS:
        return False
    items = torch.arange(_SAMPLE) * (scores.shape[0] - 1) // (_SAMPLE - 1)
    there = scores.among(items, items)
    return torch.allclose(there, there.T, rtol=0, atol=_ROUNDING * float(there.abs().max()))
