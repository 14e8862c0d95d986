"""Mutual proximity: the probability of a score under the query's and the item's scores."""

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.inference.options import MutualProximityOptions as Params
from vse_pipe.ranking.scores import Scores


def rerank(scores: Scores, bank: Bank, params: Params) -> Scores:
    """``log F_q(x_qn) + log F_n(x_qn)``, normal distributions with mean and deviation of the
    query's similarities to the items and of the item's to the bank's queries (Schnitzer et al.,
    Local and global scaling reduce hubs in space, JMLR 2012, the Gaussian form under independence).
    In the precision of the scores. F = 1/2 for equal similarities."""
    mean, deviation = _of_items(bank.queries)
    sharpness = _inverse(deviation)

    def rescore(strip: Float[Tensor, "rows items"], rows: slice) -> Float[Tensor, "rows items"]:
        spread, centre = torch.std_mean(strip, dim=1, correction=0, keepdim=True)
        of_query = (strip - centre).mul_(_inverse(spread))
        of_item = (strip - mean.to(strip)).mul_(sharpness.to(strip))
        return torch.special.log_ndtr(of_query).add_(torch.special.log_ndtr(of_item))

    return scores.mapped(rescore)


def _of_items(scores: Scores) -> tuple[Float[Tensor, " items"], Float[Tensor, " items"]]:
    """Mean and standard deviation (population) of each item's similarities, float64."""
    exact = (strip.double() for _, strip in scores.blocks())
    parts = [torch.stack([strip.sum(dim=0), strip.square().sum(dim=0)]) for strip in exact]
    mean, square = torch.stack(parts).sum(dim=0) / scores.shape[0]
    return mean, (square - mean.square()).clamp_min(0).sqrt()


def _inverse(deviation: Tensor) -> Tensor:
    return torch.where(deviation > 0, 1.0 / deviation, 0.0)
