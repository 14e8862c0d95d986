"""Sigmoid: every cell of a batch is classified separately as match or not, on a learned scale
(SigLIP, ICCV 2023)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from vse_pipe.train.heads import OwnRate
from vse_pipe.train.losses.options import SigmoidOptions as Params
from vse_pipe.train.scored import LossTerms, Scored


class Logits(nn.Module):
    """``e^log_scale S + bias``."""

    def __init__(self, params: Params) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(math.log(params.scale)))
        self.bias = nn.Parameter(torch.tensor(params.bias))
        if params.lr is not None:
            self.own_rate = OwnRate(params.lr)

    def begin_at(self, scale: float, bias: float | None) -> None:
        """Start at a checkpoint's scale and bias of the logits; a checkpoint without a bias
        keeps the option's."""
        nn.init.constant_(self.log_scale, math.log(scale))
        if bias is not None:
            nn.init.constant_(self.bias, bias)

    def forward(self, scores: Float[Tensor, "pairs pairs"]) -> Float[Tensor, "pairs pairs"]:
        return self.log_scale.exp() * scores + self.bias


def network(params: Params) -> Logits:
    """Scale and bias to train with the model."""
    return Logits(params)


def loss(batch: Scored, params: Params, network: Logits) -> LossTerms:
    """``-log sigmoid(x_ii) - 1/2 sum_t log sigmoid(-x_it) - 1/2 sum_j log sigmoid(-x_ji)`` for pair
    i with logits x; mean over the batch.

    Source: Zhai et al., Sigmoid loss for language image pre-training, ICCV 2023, section 3.2 and
    Algorithm 1: the sum over all cells divided by B. Half of a negative cell counts for its row's
    pair and half for its column's. The authors count captions of one image as negatives; here cells
    of ``batch.same`` outside of the diagonal are left out.
    """
    logits = network(batch.scores)
    positives = -logsigmoid(logits.diagonal())
    negatives = -logsigmoid(-logits).masked_fill(batch.same, 0)
    halves = (negatives.sum(dim=1) + negatives.sum(dim=0)) / 2
    return LossTerms(positives + halves, "mean")
