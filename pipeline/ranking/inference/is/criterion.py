"""The share of an item's attention that each query has, all queries or the others summed."""

from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pipeline.core.errors import InputError
from pipeline.ranking.engine.bank import Bank, ItemBias
from pipeline.ranking.engine.scores import Scores
from pipeline.ranking.engine.threads import over_rows

from . import Params


def rerank(scores: Scores, bank: Bank, params: Params) -> Scores:
    """The logarithm of Eq. 5, ``log(e^{b x_qn} / sum_{q' != q} e^{b x_q'n})``; the order is that of Eq. 5.

    Smith et al., Offline bilingual word vectors, ICLR 2017, as used in the RGM paper (section 3.3.1, beta 30). q' runs
    over the bank. Where that is the queries being ranked, MUSE's denominator holds the query itself, which bounds the
    value by 1 and changes no order: share and odds rise together. With a bank of its own, ``include_query`` adds the
    query to the sum. Raises InputError when there is nothing to sum because the only query is the bank.
    """
    if not bank.own:
        logs = item_bias(bank, params).apply(scores)
        return logs.mapped(lambda strip, rows: _share_of(strip)) if params.include_query else logs
    if scores.shape[0] < 2 and not params.include_query:
        raise InputError(
            "is: the denominator sums over the other queries and there are none; set inference.is.include_query: true"
        )
    shares = _Shares.of(scores, params.beta)

    def rescore(strip: Float[Tensor, "rows items"], rows: slice) -> Float[Tensor, "rows items"]:
        odds = shares.without_query(shares.logs(strip), rows)
        # A share close to 1 keeps its distance from 1 only when it comes from the odds.
        return _share_of(odds) if params.include_query else odds

    return scores.mapped(rescore)


def item_bias(bank: Bank, params: Params) -> ItemBias:
    """``b x_qn - log sum_bank e^{b x_q'n}``, the logarithm of MUSE's form, which ranks as Eq. 5 does."""
    return ItemBias(params.beta, bank.log_sum(params.beta))


def _share_of(odds: Tensor) -> Tensor:
    """``log(p)`` from ``log(p / (1 - p))``."""
    return torch.logaddexp(odds.new_zeros(()), -odds).neg_()


class _Shares:
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
        self.rest = shares.scatter_(0, self.query[None], 0.0).sum(dim=0).double()
        self.query += start

    @classmethod
    def of(cls, scores: Scores, beta: float) -> "_Shares":
        parts = scores.each(lambda rows: cls(scores.strip(rows), rows.start, beta))
        _, bank = next(parts)
        for _, part in parts:
            bank.add(part)
        return bank

    def add(self, other: "_Shares") -> None:
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

    def logs(self, strip: Float[Tensor, "rows items"]) -> Float[Tensor, "rows items"]:
        """log(e^{b x_qn} / sum over all queries), in the precision of the scores."""
        return torch.add(-self.logs_of_all.to(strip), strip, alpha=self.beta)

    def without_query(self, logs: Float[Tensor, "rows items"], rows: slice) -> Float[Tensor, "rows items"]:
        """log(p / (1 - p)) for a share p: what Eq. 5 divides by is the sum of all times 1 - p."""
        # A share of one half or more is the dominant query's, below; a rounding error must not make one above 1.
        rescored = logs - logs.exp().clamp_(max=0.75).neg_().log1p_()
        columns = ((self.query >= rows.start) & (self.query < rows.stop)).nonzero()[:, 0]
        # 1 - p of the dominant query is known exactly: the rest of the sum.
        log_of_rest = self.second[columns] + self.rest[columns].log()
        rescored[self.query[columns] - rows.start, columns] = (self.first[columns] - log_of_rest).to(rescored)
        return rescored


def _leaders(strip: Float[Tensor, "rows items"]) -> tuple[Tensor, Tensor, Int[Tensor, " items"]]:
    """Of each item the largest score, the second largest (-inf with one row), and the row of the largest."""
    if not (strip.is_cpu and strip.dtype in (torch.float32, torch.float64)):
        first, query = strip.max(dim=0)
        second = strip.scatter(0, query[None], -torch.inf).amax(dim=0)
        return first, second, query
    # numba takes half a second to import, which commands that rank nothing should not pay.
    from pipeline.ranking.compiled.leading import leading

    values, items = strip.contiguous().numpy(), strip.shape[1]
    highest, next_best = (np.full(items, -np.inf, values.dtype) for _ in range(2))
    place = np.zeros(items, np.int32)
    over_rows(lambda start, stop: leading(values, highest, next_best, place, start, stop), items)
    return torch.from_numpy(highest), torch.from_numpy(next_best), torch.from_numpy(place).long()
