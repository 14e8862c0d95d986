"""HAL: a hubness-aware loss; a batch can contain the weights of a memory bank (HAL, AAAI 2020)."""

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.train.losses.options import HalOptions as Params
from vse_pipe.train.scored import LossTerms, Scored

# Slope of ``extended`` below 0. With slope 1, training first pulls all vectors together and is
# slower on few pairs.
BELOW = 0.1


def loss(batch: Scored, params: Params) -> LossTerms:
    """``1/g log(1 + sum_m E_mi) + 1/g log(1 + sum_n E_in) - log(1 + relu(W_ii S_ii))`` for pair i.

    E = ``e^(g W (S - eps))``; W = 1 without ``batch.weights``.

    Source: HAL (Liu et al., AAAI 2020) Eq. 7; mean over the batch. The paper's ``log(1 + W_ii
    S_ii)`` is undefined for W_ii S_ii <= -1. ``paper`` and ``code`` use the authors' relu, which
    has no gradient at similarities of 0 or below: training that starts or arrives at this point
    stays. ``extended`` is equal above 0 and has a tenth of the slope below it, so that every pair
    is pulled together. ``code`` also has the authors' zeroed diagonal, which adds ``e^(-g eps)``
    without weights and ``e^0 = 1`` with weights to each inner sum; ``paper`` leaves the positive
    out. logsumexp permits a large gamma.
    """
    exponents, strength = _exponents(batch, params), batch.scores.diagonal()
    if batch.weights is not None:
        strength = batch.weights.diagonal() * strength
    zero = exponents.new_zeros(len(exponents), 1)
    images = torch.cat([zero, exponents.T], dim=1).logsumexp(dim=1) / params.gamma
    texts = torch.cat([zero, exponents], dim=1).logsumexp(dim=1) / params.gamma
    positive = torch.log1p(strength.relu())
    if params.variant == "extended":
        positive = torch.where(strength > 0, positive, BELOW * strength)
    return LossTerms(images + texts - positive, "mean")


def _exponents(batch: Scored, params: Params) -> Float[Tensor, "pairs pairs"]:
    """``g W (S - eps)``; -inf for cells that are no negatives, except for the diagonal of
    ``code``."""
    exponents = params.gamma * (batch.scores - params.eps)
    if batch.weights is not None:
        exponents = exponents * batch.weights
    exponents = exponents.masked_fill(batch.same, -torch.inf)
    if params.variant != "code":
        return exponents
    # Without weights the authors set the score to 0, with weights the whole exponent.
    positive = -params.gamma * params.eps if batch.weights is None else 0.0
    return exponents.masked_fill(torch.eye(len(exponents), dtype=torch.bool, device=exponents.device), positive)
