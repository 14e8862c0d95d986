"""Sets with some elements dropped at random, so that a pooling learns from sets of many sizes (Chen et al., CVPR 2021)."""

import torch
from jaxtyping import Bool
from torch import Tensor


def thinned(present: Bool[Tensor, "sets n"], share: float) -> Bool[Tensor, "sets n"]:
    """The elements that stay: each goes with chance ``share``, but one of every set stays. Draws from torch's own generator,
    which training ties to (seed, epoch)."""
    draws = torch.rand(present.shape, device=present.device).masked_fill(~present, -1.0)
    return present & ((draws >= share) | (draws == draws.amax(dim=1, keepdim=True)))
