"""InfoNCE in both directions: every other pair of the batch is a class of its own (L2RM, CVPR 2024)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse_pipe.train.batch import LossTerms, Scored, cross_entropy
from vse_pipe.train.heads import OwnRate
from vse_pipe.train.losses.options import InfonceOptions as Params

# CLIP's: logits are scaled by 100 at most.
_LOWEST = 0.01


class Temperature(nn.Module):
    """``max(e^log_tau, 0.01)``."""

    def __init__(self, params: Params) -> None:
        super().__init__()
        self.log_tau = nn.Parameter(torch.tensor(math.log(params.tau)))
        if params.lr is not None:
            self.own_rate = OwnRate(params.lr)

    def forward(self) -> Float[Tensor, ""]:
        return self.log_tau.exp().clamp_min(_LOWEST)


def network(params: Params) -> Temperature | None:
    """What is trained with the model, if anything."""
    return Temperature(params) if params.learn else None


def loss(batch: Scored, params: Params, network: Temperature | None = None) -> LossTerms:
    """``-log p_ii`` among the texts of image i, plus the same among the images of text i, p the softmax of S
    / tau.

    Source: L2RM (Han et al., CVPR 2024) Eq. 3; mean over the batch, the two directions added and not halved.
    The authors take exponentials as they are, which overflow float32 at S / tau above 88; here by
    log-softmax. The learned temperature is that of Radford et al., Learning transferable visual models from natural language
    supervision (CLIP), ICML 2021, section 2.3; they clip its parameter after each step, here the value has the bound.
    """
    return cross_entropy(batch, params.tau if network is None else network())
