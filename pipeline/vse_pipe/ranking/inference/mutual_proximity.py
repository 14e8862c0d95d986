"""Mutual proximity: the probability of a similarity under the query's and under the item's similarities."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.inference.options import MutualProximityOptions as Params
from vse_pipe.ranking.scores import Scores

# Rows computed together, few enough for a processor's cache: twice as fast as a strip at once.
_ROWS = 8


def rerank(scores: Scores, bank: Bank, params: Params) -> Scores:
    """``log F_q(x_qn) + log F_n(x_qn)``, normal distributions with mean and deviation of the query's similarities to
    the items and of the item's to the bank's queries (Schnitzer et al., Local and global scaling reduce hubs in space,
    JMLR 2012, the Gaussian form under independence). In the precision of the scores. F = 1/2 for equal similarities."""
    mean, deviation = _of_items(bank.queries)
    sharpness = _inverse(deviation)

    def rescore(strip: Float[Tensor, "rows items"], rows: slice) -> Float[Tensor, "rows items"]:
        return torch.cat([certainty(part) for part in strip.split(_ROWS)])

    def certainty(part: Float[Tensor, "some items"]) -> Float[Tensor, "some items"]:
        spread, centre = torch.std_mean(part, dim=1, correction=0, keepdim=True)
        query = (part - centre).mul_(_inverse(spread))
        item = (part - mean.to(part)).mul_(sharpness.to(part))
        return _log_normal(query).add_(_log_normal(item))

    return scores.mapped(rescore)


def _of_items(scores: Scores) -> tuple[Float[Tensor, " items"], Float[Tensor, " items"]]:
    """Mean and standard deviation (population) of each item's similarities, float64 over strips."""
    count, mean, moment = 0, torch.zeros(()), torch.zeros(())
    parts = scores.over_strips(lambda rows: torch.var_mean(scores.strip(rows), dim=0, correction=0))
    for rows, (variance, of_strip) in parts:
        height = rows.stop - rows.start
        away, both = of_strip.double() - mean, count + height
        moment = moment + variance.double() * height + away.square() * (count * height / both)
        mean = mean + away * (height / both)
        count = both
    return mean, (moment / count).sqrt()


def _log_normal(z: Tensor) -> Tensor:
    """Logarithm of the standard normal distribution function, faster than ``torch.special.log_ndtr``.

    With the tail t on the side of z: log(t) below 0, log(1 - t) above, which separates small and large values. Where t
    leaves the range of the precision, its first asymptotic term."""
    tail = torch.special.erfc(z.abs().mul_(math.sqrt(0.5))).mul_(0.5)
    logs = torch.where(z > 0, torch.log1p(-tail), tail.log())
    lost = (tail < torch.finfo(z.dtype).tiny) & (z < 0)
    return torch.where(lost, -0.5 * z.square() - torch.log(-z * math.sqrt(2 * math.pi)), logs) if lost.any() else logs


def _inverse(deviation: Tensor) -> Tensor:
    return torch.where(deviation > 0, 1.0 / deviation, 0.0)
