"""Complementary contrastive learning: negatives are pushed apart, and no pair is pulled together
(RCL, TPAMI 2023)."""

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.train.losses.options import RclOptions as Params
from vse_pipe.train.scored import LossTerms, Scored, log_chances

_SMALLEST = 1e-10


def loss(batch: Scored, params: Params) -> LossTerms:
    """The cost of all negative texts of image i plus that of all negative images of text i; mean
    over the batch.

    With p the softmax of S / tau a negative costs ``-log(1 - p)``. The positive costs nothing, so
    mismatched pairs are not memorised.

    Source: Hu et al., Cross-modal retrieval with partially mismatched pairs, TPAMI 2023, with the
    formulas of the authors' public code, including 1e-10 on 1 - p. Its softmax overflows at S / tau
    above 88 and adds 1e-10 to the denominator; a log-softmax needs neither. Its other costs and its
    option to draw a share of the negatives (off by default) are not implemented.
    """
    texts, images = log_chances(batch, params.tau)
    costs = [
        _cost(side).masked_fill(same, 0).sum(dim=1) for side, same in ((texts, batch.same), (images, batch.same.T))
    ]
    return LossTerms(costs[0] + costs[1], "mean")


def _cost(log_p: Float[Tensor, "pairs pairs"]) -> Float[Tensor, "pairs pairs"]:
    """The cost of each cell as a negative."""
    # expm1 is more exact than 1 - p when p is close to 1.
    return -(-torch.expm1(log_p) + _SMALLEST).log()
