"""One optimisation step and the schedule: Adam, gradient clipping, step decay (vsepp and its descendants)."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from pipeline.errors import PipelineError
from pipeline.params.schema import TrainParams
from pipeline.train.losses._terms import LossTerms
from pipeline.train.model import DualEncoder


def adam(model: torch.nn.Module, lr: float) -> torch.optim.Adam:
    """Default betas and eps, no weight decay."""
    return torch.optim.Adam(model.parameters(), lr=lr, fused=True)


def decayed(params: TrainParams, epoch: int) -> float:
    """``lr * 0.1 ^ (epoch // lr_update)``, epochs counted from 0."""
    return params.lr * 0.1 ** (epoch // params.lr_update)


def step(
    model: DualEncoder,
    optimizer: torch.optim.Optimizer,
    loss: Callable[[Tensor], LossTerms],
    features: Tensor,
    tokens: Tensor,
    lengths: Tensor,
    grad_clip: float,
) -> float:
    """Forward, backward, clip the norm of all gradients, update. Returns the loss before the update.

    Raises PipelineError on a loss that is not finite, before any weight changes.
    """
    optimizer.zero_grad(set_to_none=True)
    total = loss(model(features, tokens, lengths)).total()
    value = total.item()
    if value != value or value in (float("inf"), float("-inf")):
        raise PipelineError(f"the loss is {value}; lower train.lr or check the features")
    total.backward()
    clip_grad_norm_(model.parameters(), grad_clip)
    optimizer.step()
    return value
