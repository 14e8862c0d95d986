"""Active complementary learning: trust pulls a pair together, and negatives are pushed apart
(CRCL, NeurIPS 2023)."""

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.train.losses.options import CrclOptions as Params
from vse_pipe.train.scored import LossTerms, Scored, log_chances


def loss(batch: Scored, params: Params) -> LossTerms:
    """``y_i (-log p_ii - log q_ii) + w (N(p, y)_i + N(q, y)_i)``, mean over the batch, with ``N(p,
    y)_i = sum_{t != i} tan p_it / (sum_t tan p_it)^(1 - y_i)``.

    p and q are the softmaxes of S / tau over the texts and over the images, w is ``complementary``,
    and y is the batch's ``targets`` (1 without targets). A pair without trust only pushes its
    negatives away.

    Source: Qin et al., Cross-modal active complementary learning with self-refining correspondence,
    NeurIPS 2023, with the formulas of the authors' public code. Its softmax overflows at S / tau
    above 88 and adds 1e-10 to the denominator; a log-softmax needs neither.
    """
    sides = log_chances(batch, params.tau)
    targets = batch.trust
    active = -targets * (sides[0].diagonal() + sides[1].diagonal())
    negatives = params.complementary * (_negatives(sides[0], targets) + _negatives(sides[1], targets))
    return LossTerms(active + negatives, "mean")


def _negatives(log_p: Float[Tensor, "pairs pairs"], targets: Float[Tensor, " pairs"]) -> Float[Tensor, " pairs"]:
    costs = log_p.exp().tan()
    diagonal = torch.eye(len(costs), dtype=torch.bool, device=costs.device)
    return costs.masked_fill(diagonal, 0).sum(dim=1) / costs.sum(dim=1) ** (1 - targets)
