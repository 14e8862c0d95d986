"""The query bank, whose scores correct the hubs among ranked items."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from itertools import starmap

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.core.errors import InputError
from vse_pipe.ranking import fragments
from vse_pipe.ranking.scores import Scores


@dataclass(frozen=True)
class Bank:
    """queries: the bank's queries (rows) against the ranked items (columns).

    is_transductive: the bank is the ranked queries themselves (the protocol of the papers).
    Otherwise it is a separate set (inductive, possible in a system in use), and no query's result
    depends on another's. gallery: the bank's items (rows) against the ranked items, both of the
    same kind; None without vectors."""

    queries: Scores
    is_transductive: bool
    gallery: Callable[[], Scores] | None = None

    def items(self) -> Scores:
        """The gallery's scores. Raises InputError where there are no vectors to make them."""
        if self.gallery is None:
            raise InputError("the criterion compares items with items and there are only scores; give embeddings")
        return self.gallery()


@dataclass(frozen=True)
class ItemBias:
    """The score ``scale * s(q, n) - bias_n``, the form of every criterion that corrects each item
    by one number. notes: how the bias was computed, for the metrics."""

    scale: float
    bias: Float[Tensor, " items"]
    notes: dict[str, float] = field(default_factory=dict)

    def apply(self, scores: Scores) -> Scores:
        """The corrected scores in the precision of ``scores``."""
        return scores.mapped(lambda strip, rows: self.corrected(strip), self.notes, correction=self.corrected)

    def corrected(self, part: Float[Tensor, "rows some"], items: slice = slice(None)) -> Float[Tensor, "rows some"]:
        """Scores of these items."""
        return torch.add(-self.bias[items].to(part), part, alpha=self.scale)


def log_sum_exp(scores: Scores, beta: float, but_itself: bool = False) -> Float[Tensor, " items"]:
    """``log sum_q e^{beta s(q, n)}`` over the rows for each item n. Sums within a strip have the
    precision of the scores, sums over strips float64.

    but_itself: leave out the diagonal; rows and columns are the same items. Raises InputError
    without a row to sum."""
    if scores.shape[0] <= int(but_itself):
        raise InputError("the bank is empty: nothing to sum over")

    def summed(rows: slice, strip: Tensor) -> Float[Tensor, " items"]:
        exponents = strip * beta
        if but_itself:
            exponents[:, rows].fill_diagonal_(-torch.inf)
        return fragments.column_log_sums(exponents)

    return reduce(torch.logaddexp, starmap(summed, scores.blocks()))


@dataclass(frozen=True)
class Shares:
    """Sums of ``e^{beta s(q, n)}`` over queries for each item: ``largest``, the score of its
    dominant query, and ``rest``, the logarithm of the sum over the others, float64.

    Subtracting a dominant query from the sum over all queries would cancel to nothing. Each other
    query has at most half of the sum."""

    beta: float
    largest: Float[Tensor, " items"]
    rest: Float[Tensor, " items"]

    @classmethod
    def over(cls, scores: Scores, beta: float) -> "Shares":
        parts = []
        for _, strip in scores.blocks():
            largest, query = strip.max(dim=0, keepdim=True)
            remainder = strip.scatter(0, query, -torch.inf)
            parts.append(cls(beta, largest[0], fragments.column_log_sums(remainder * beta)))
        return reduce(cls._joined, parts)

    def _joined(self, part: "Shares") -> "Shares":
        runner_up = torch.minimum(self.largest, part.largest).double() * self.beta
        rest = torch.logaddexp(self.rest, part.rest).logaddexp(runner_up)
        return Shares(self.beta, torch.maximum(self.largest, part.largest), rest)

    def log_odds(self, strip: Float[Tensor, "rows items"]) -> Float[Tensor, "rows items"]:
        """``log(p / (1 - p))`` for the share p of each of these queries: its ``e^{b x_qn}`` against
        the sum over the others. In the precision of the scores; inf where there are no others."""
        first = self.largest.double() * self.beta
        logs = torch.add(-torch.logaddexp(first, self.rest).to(strip), strip, alpha=self.beta)
        odds = logs - logs.exp().neg_().log1p_()
        return torch.where(strip == self.largest, (first - self.rest).to(odds), odds)
