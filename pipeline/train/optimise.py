"""One optimisation step and the schedule: Adam, gradient clipping, step decay (vsepp and its descendants)."""

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from pipeline.params.schema import TrainParams
from pipeline.train import gradient_cache
from pipeline.train.data import Batch
from pipeline.train.schemes._scheme import Scheme


def adam(model: nn.Module, lr: float) -> torch.optim.Adam:
    """Default betas and eps, no weight decay."""
    return torch.optim.Adam(model.parameters(), lr=lr, fused=True)


def decayed(params: TrainParams, epoch: int) -> float:
    """``lr * 0.1 ^ (epoch // lr_update)``, epochs counted from 0."""
    return params.lr * 0.1 ** (epoch // params.lr_update)


def step(scheme: Scheme, optimizer: torch.optim.Optimizer, batch: Batch) -> float:
    """Forward, backward, clip the norm of all gradients, update. Returns the loss before the update.

    Raises PipelineError on a loss that is not finite, before any weight changes.
    """
    model, params = scheme.setting.model, scheme.setting.train
    optimizer.zero_grad(set_to_none=True)
    if params.chunk and params.chunk < len(batch.pairs):
        value = gradient_cache.backward(scheme, batch, params.chunk)
    else:
        images, texts = model.encode(batch, scheme.setting.device, params.precision)
        total = scheme.terms(images, texts, batch).total()
        value = gradient_cache.finite(total)
        total.backward()
    clip_grad_norm_(model.parameters(), params.grad_clip)
    optimizer.step()
    return value
