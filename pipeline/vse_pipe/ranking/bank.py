"""The query bank, whose scores correct the hubs among ranked items."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import starmap

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse_pipe.core.errors import InputError
from vse_pipe.ranking import fragments
from vse_pipe.ranking.scores import Scores

_ALL = slice(None)


@dataclass(frozen=True)
class Bank:
    """queries: the bank's queries (rows) against the ranked items (columns).

    is_transductive: the bank is the ranked queries themselves (the protocol of the papers).
    Otherwise it is a separate set (inductive, possible in a system in use), and no query's result
    depends on another's. gallery: the bank's items (rows) against the ranked items, both of the
    same kind; None without vectors. sums: cache of ``log_sum``."""

    queries: Scores
    is_transductive: bool
    gallery: Callable[[], Scores] | None = None
    sums: dict[tuple[float, bool], Float[Tensor, " items"]] = field(default_factory=dict, repr=False)

    def log_sum(self, beta: float, of_gallery: bool = False) -> Float[Tensor, " items"]:
        """``log_sum_exp`` over the bank's queries, or over its items without the ranked item
        itself; cached, because several criteria use it."""
        key = beta, of_gallery
        if key not in self.sums:
            rows = self.items() if of_gallery else self.queries
            self.sums[key] = log_sum_exp(rows, beta, but_itself=of_gallery and self.is_transductive)
        return self.sums[key]

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

    def corrected(self, part: Float[Tensor, "rows some"], items: slice = _ALL) -> Float[Tensor, "rows some"]:
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


class Shares:
    """Sums of ``e^{beta s(q, n)}`` over queries for each item, without its dominant query:
    ``first``, exponent of that query; ``query``, its row; ``second``, exponent of the runner-up;
    ``rest``, the sum relative to the second.

    Subtracting a dominant query from the sum over all queries would cancel to nothing. Without it
    nothing cancels: each other query has at most half of the sum."""

    def __init__(self, strip: Float[Tensor, "rows items"], start: int, beta: float) -> None:
        self.beta = beta
        largest, runner_up, query = _leaders(strip)
        self.first, self.second, self.query = largest.double() * beta, runner_up.double() * beta, query
        # A strip of one query has second -inf, and -inf - -inf would be NaN.
        shares = torch.add(-self.second.nan_to_num(neginf=0.0).to(strip), strip, alpha=beta).exp_()
        self.rest = fragments.column_sums(shares.scatter_(0, self.query[None], 0.0))
        self.query += start

    @classmethod
    def over(cls, scores: Scores, beta: float) -> "Shares":
        parts = (cls(strip, rows.start, beta) for rows, strip in scores.blocks())
        bank = next(parts)
        for part in parts:
            bank.add(part)
        return bank

    def add(self, part: "Shares") -> None:
        """Take in further queries."""
        ahead = part.first > self.first
        runner_up = torch.where(ahead, self.first, part.first)
        second = torch.maximum(torch.maximum(self.second, part.second), runner_up)
        self.rest = (
            self.rest * (self.second - second).exp()
            + part.rest * (part.second - second).exp()
            + (runner_up - second).exp()
        )
        self.first = torch.where(ahead, part.first, self.first)
        self.query = torch.where(ahead, part.query, self.query)
        self.second = second

    @cached_property
    def logs_of_all(self) -> Float[Tensor, " items"]:
        return self.first + torch.log1p(self.rest * (self.second - self.first).exp())

    def log_odds(self, strip: Float[Tensor, "rows items"], rows: slice) -> Float[Tensor, "rows items"]:
        """``log(p / (1 - p))`` for the share p of each of these queries: its ``e^{b x_qn}`` against
        the sum over the others. In the precision of the scores; inf where there are no others."""
        logs = torch.add(-self.logs_of_all.to(strip), strip, alpha=self.beta)
        # Shares of one half or more belong to the dominant query (see below); rounding must not
        # lift a share above 1.
        odds = logs - logs.exp().clamp_(max=0.75).neg_().log1p_()
        # 1 - p of the dominant query is exactly the rest of the sum. Queries that share the lead
        # have the same odds.
        best = (self.first - (self.second + self.rest.log())).to(odds)
        led = ((self.query >= rows.start) & (self.query < rows.stop)).nonzero()[:, 0]
        odds[self.query[led] - rows.start, led] = best[led]
        shared = (self.second == self.first).nonzero()[:, 0]
        leads = strip[:, shared].double() * self.beta == self.first[shared]
        odds[:, shared] = torch.where(leads, best[shared], odds[:, shared])
        return odds


def _leaders(strip: Float[Tensor, "rows items"]) -> tuple[Tensor, Tensor, Int[Tensor, " items"]]:
    """For each item the largest score, the second (-inf with one row), and the largest's row."""
    first, query = strip.max(dim=0)
    return first, strip.scatter(0, query[None], -torch.inf).amax(dim=0), query
