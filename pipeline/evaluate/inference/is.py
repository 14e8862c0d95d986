"""Inverted softmax: how much of an item's attention goes to this query, among all queries.

A keyword cannot follow ``import``: load this module by name, through ``pipeline.registry``.
"""

import torch
from jaxtyping import Float
from pydantic import PositiveFloat
from torch import Tensor

from pipeline.errors import InputError
from pipeline.evaluate.scores import Scores
from pipeline.params.strict import Strict


class Params(Strict):
    """beta: inverse temperature; include_query: sum over all queries, as MUSE does, not over the others (Eq. 5)."""

    beta: PositiveFloat = 30.0
    include_query: bool = False


def rerank(scores: Scores, params: Params) -> Scores:
    """The logarithm of Eq. 5, ``log(e^{b x_qn} / sum_{q' != q} e^{b x_q'n})``, in float64; the order is that of Eq. 5.

    Smith et al., Offline bilingual word vectors, ICLR 2017, as used in the RGM paper (section 3.3.1, beta 30). The bank
    is the queries being ranked. MUSE's denominator holds the query itself, which bounds the value by 1.
    Raises InputError when Eq. 5 has nothing to sum because there is one query only.
    """
    if scores.shape[0] < 2 and not params.include_query:
        raise InputError(
            "is: the denominator sums over the other queries and there are none; set include_query: true"
        )
    bank = _Bank.of(scores, params.beta)

    def rescore(strip: Float[Tensor, "rows items"], rows: slice) -> Float[Tensor, "rows items"]:
        logs = bank.log_shares(strip)
        return logs if params.include_query else bank.without_query(logs, rows)

    return scores.mapped(rescore)


class _Bank:
    """Per item, over all queries: the largest exponent ``first``, the ``query`` that has it, the second largest, and
    ``rest``, the sum of all but the first relative to the second.

    "All less the query" cancels to nothing where the query dominates the sum. With that one query kept apart, nothing
    cancels: any other has at most half of it.
    """

    def __init__(self, strip: Float[Tensor, "rows items"], start: int, beta: float) -> None:
        exponents = strip.to(torch.float64, copy=True).mul_(beta)
        self.beta = beta
        self.first, self.query = exponents.max(dim=0)
        exponents.scatter_(0, self.query[None], -torch.inf)
        self.second = exponents.amax(dim=0)
        # A strip of one query leaves -inf, whose difference with itself is NaN.
        self.rest = exponents.sub_(self.second.nan_to_num(neginf=0.0)).exp_().sum(dim=0)
        self.query += start

    @classmethod
    def of(cls, scores: Scores, beta: float) -> "_Bank":
        strips = iter(scores.strips())
        first = next(strips)
        bank = cls(scores.strip(first), first.start, beta)
        for rows in strips:
            bank.add(cls(scores.strip(rows), rows.start, beta))
        return bank

    def add(self, other: "_Bank") -> None:
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

    def log_shares(self, strip: Float[Tensor, "rows items"]) -> Float[Tensor, "rows items"]:
        """log(e^{b x_qn} / sum over all queries)."""
        logs_of_all = self.first + torch.log1p(self.rest * (self.second - self.first).exp())
        return strip.to(torch.float64, copy=True).mul_(self.beta).sub_(logs_of_all)

    def without_query(self, logs: Float[Tensor, "rows items"], rows: slice) -> Float[Tensor, "rows items"]:
        """log(p / (1 - p)) for a share p: what Eq. 5 divides by is the sum of all times 1 - p."""
        others = logs.exp().neg_().add_(1.0).log_()
        rescored = logs - others
        columns = ((self.query >= rows.start) & (self.query < rows.stop)).nonzero()[:, 0]
        # 1 - p of the dominant query is known exactly: the rest of the sum.
        log_of_rest = self.second[columns] + self.rest[columns].log()
        rescored[self.query[columns] - rows.start, columns] = self.first[columns] - log_of_rest
        return rescored
