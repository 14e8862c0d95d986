"""Sinkhorn's algorithm on the similarities of a batch: how they would look if everything were found as often."""

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.train.engine.loss.evidence import counted
from vse_pipe.train.engine.loss.scored import Scored


@torch.no_grad()
def plan(batch: Scored, tau: float, iterations: int) -> Float[Tensor, "pairs pairs"]:
    """``e^(S / tau)`` with rows and columns scaled in turn to sum 1: columns do, rows as nearly as ``iterations`` allow."""
    logits = (batch.scores.detach() / tau).masked_fill(~counted(batch), -torch.inf)
    columns = torch.zeros_like(logits[0])
    for _ in range(iterations):
        rows = -(logits + columns).logsumexp(dim=1, keepdim=True)
        columns = -(logits + rows).logsumexp(dim=0)
    return (logits + rows + columns).exp()
