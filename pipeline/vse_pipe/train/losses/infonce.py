"""InfoNCE in both directions: each pair of the batch is a class (L2RM, CVPR 2024)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse_pipe.train.heads import OwnRate
from vse_pipe.train.losses.options import InfonceOptions as Params
from vse_pipe.train.scored import LossTerms, Scored, cross_entropy

# As in CLIP, logits are scaled by at most 100.
_LOWEST = 0.01


class Temperature(nn.Module):
    """``max(e^log_tau, 0.01)``."""

    def __init__(self, params: Params) -> None:
        super().__init__()
        self.log_tau = nn.Parameter(torch.tensor(math.log(params.tau)))
        if params.lr is not None:
            self.own_rate = OwnRate(params.lr)

    def begin_at(self, scale: float, bias: float | None) -> None:
        """Start at a checkpoint's scale of the logits, at most 100. ``bias`` has no effect:
        softmax does not see it."""
        tau = max(1 / scale, _LOWEST * (1 + 1e-6))  # below the bound no gradient would pass
        nn.init.constant_(self.log_tau, math.log(tau))

    def forward(self) -> Float[Tensor, ""]:
        return self.log_tau.exp().clamp_min(_LOWEST)


def network(params: Params) -> Temperature | None:
    """The temperature to train with the model, or None for a constant one."""
    return Temperature(params) if params.learn else None


def loss(batch: Scored, params: Params, network: Temperature | None = None) -> LossTerms:
    """``-log p_ii`` over the texts of image i plus ``-log p_ii`` over the images of text i, with p
    the softmax of S / tau.

    Source: L2RM (Han et al., CVPR 2024) Eq. 3; mean over the batch, directions added and not
    averaged. A log-softmax avoids the overflow of the authors' exponentials at S / tau above 88.
    The learned temperature is that of Radford et al., Learning transferable visual models from
    natural language supervision (CLIP), ICML 2021, section 2.3; the bound limits the value, where
    CLIP clips the parameter after each step.
    """
    return cross_entropy(batch, params.tau if network is None else network())
