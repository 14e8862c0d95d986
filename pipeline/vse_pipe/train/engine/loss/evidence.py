"""Similarities as evidence that image and text belong together (DECL, ACM MM 2022)."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vse_pipe.train.engine.loss.scored import Scored


def counted(batch: Scored) -> Bool[Tensor, "pairs pairs"]:
    """The cells that are negatives, and the diagonal."""
    return ~batch.same | torch.eye(len(batch.same), dtype=torch.bool, device=batch.same.device)


def evidence(batch: Scored, tau: float) -> Float[Tensor, "pairs pairs"]:
    """``e^(tanh(S) / tau)``, and 0 where a cell is not ``counted``."""
    return (batch.scores.tanh() / tau).exp().masked_fill(~counted(batch), 0)


def fits(batch: Scored, tau: float) -> Float[Tensor, "pairs pairs"]:
    """Each row of ``e + e^T`` divided by its sum: on the diagonal how well a pair fits, from 0 to 1."""
    given = evidence(batch, tau)
    both = given + given.T
    return both / both.sum(dim=1, keepdim=True)
