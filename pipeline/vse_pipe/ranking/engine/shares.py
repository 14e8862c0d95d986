"""How an item's attention is shared among the queries that are ranked."""

from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse_pipe.ranking.engine import columns
from vse_pipe.ranking.engine.scores import Scores
from vse_pipe.ranking.engine.threads import over_rows


class Shares:
    """Per item, over all queries: the largest exponent ``first``, the ``query`` that has it, the second largest, and
    ``rest``, the sum of all but the first relative to the second.

    "All less the query" cancels to nothing where the query dominates the sum. With that one query kept apart, nothing
    cancels: any other has at most half of it.
    """

    def __init__(self, strip: Float[Tensor, "rows items"], start: int, beta: float) -> None:
        self.beta = beta
        largest, runner_up, query = _leaders(strip)
        self.first, self.second, self.query = largest.double() * beta, runner_up.double() * beta, query
        # A strip of one query has no second: -inf, whose difference with itself is NaN.
        shares = torch.add(-self.second.nan_to_num(neginf=0.0).to(strip), strip, alpha=beta).exp_()
        self.rest = columns.total(shares.scatter_(0, self.query[None], 0.0))
        self.query += start

    @classmethod
    def of(cls, scores: Scores, beta: float) -> "Shares":
        parts = scores.each(lambda rows: cls(scores.strip(rows), rows.start, beta))
        _, bank = next(parts)
        for _, part in parts:
            bank.add(part)
        return bank

    def add(self, other: "Shares") -> None:
        """Take in further queries."""
        ahead = other.first > self.first
        runner_up = torch.where(ahead, self.first, other.first)
        second = torch.maximum(torch.maximum(self.second, other.second), runner_up)
        self.rest = (
            self.rest * (self.second - second).exp()
            + other.rest * (other.second - second).exp()
            + (runner_up - second).exp()
        )
        self.first = torch.where(ahead, other.first, self.first)
        self.query = torch.where(ahead, other.query, self.query)
        self.second = second

    @cached_property
    def logs_of_all(self) -> Float[Tensor, " items"]:
        return self.first + torch.log1p(self.rest * (self.second - self.first).exp())

    def log_odds(self, strip: Float[Tensor, "rows items"], rows: slice) -> Float[Tensor, "rows items"]:
        """log(p / (1 - p)) for the share p of each of these queries: e^{b x_qn} against the sum over all others. In the
        precision of the scores; inf where there are no others."""
        logs = torch.add(-self.logs_of_all.to(strip), strip, alpha=self.beta)
        # A share of one half or more is the dominant query's, below; a rounding error must not make one above 1.
        odds = logs - logs.exp().clamp_(max=0.75).neg_().log1p_()
        # 1 - p of the dominant query is known exactly: the rest of the sum. Queries that share the lead have the same odds.
        best = (self.first - (self.second + self.rest.log())).to(odds)
        led = ((self.query >= rows.start) & (self.query < rows.stop)).nonzero()[:, 0]
        odds[self.query[led] - rows.start, led] = best[led]
        shared = (self.second == self.first).nonzero()[:, 0]
        leads = strip[:, shared].double() * self.beta == self.first[shared]
        odds[:, shared] = torch.where(leads, best[shared], odds[:, shared])
        return odds


def _leaders(strip: Float[Tensor, "rows items"]) -> tuple[Tensor, Tensor, Int[Tensor, " items"]]:
    """Of each item the largest score, the second largest (-inf with one row), and the row of the largest."""
    if not (strip.is_cpu and strip.dtype in (torch.float32, torch.float64)):
        first, query = strip.max(dim=0)
        second = strip.scatter(0, query[None], -torch.inf).amax(dim=0)
        return first, second, query
    # numba takes half a second to import, which commands that rank nothing should not pay.
    from vse_pipe.ranking.compiled.leading import leading

    values, items = strip.contiguous().numpy(), strip.shape[1]
    highest, next_best = (np.full(items, -np.inf, values.dtype) for _ in range(2))
    place = np.zeros(items, np.int32)
    over_rows(lambda start, stop: leading(values, highest, next_best, place, start, stop), items)
    return torch.from_numpy(highest), torch.from_numpy(next_best), torch.from_numpy(place).long()
