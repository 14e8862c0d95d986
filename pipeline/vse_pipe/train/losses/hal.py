"""HAL: hubness-aware loss; weights of a memory bank come in with the batch (HAL, AAAI 2020)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.train.batch import LossTerms, Scored
from vse_pipe.train.losses.options import HalOptions as Params

# Slope of ``extended`` below 0. With the slope at 0, which is 1, all vectors are first pulled together, and training on few pairs is slower.
BELOW = 0.1


def loss(batch: Scored, params: Params) -> LossTerms:
    """``1/g log(1 + sum_m E_mi) + 1/g log(1 + sum_n E_in) - log(1 + relu(W_ii S_ii))`` for pair i.

    E = ``e^(g W (S - eps))``; W = 1 without ``batch.weights``.

    Source: HAL (Liu et al., AAAI 2020) Eq. 7; mean over the batch. The paper's ``log(1 + W_ii S_ii)`` is
    undefined for W_ii S_ii <= -1. ``paper`` and ``code`` use the authors' relu, which pulls no pair together whose similarity is
    0 or below: training can start there, or be pushed there by one step too long, and stays. ``extended`` is the same above 0, and goes
    on below it with a tenth of the slope at 0, so that every pair is pulled. ``code`` also keeps the authors' zeroed
    diagonal: each inner sum gains ``e^(-g eps)`` without weights and ``e^0 = 1`` with weights; ``paper``
    leaves the positive out. Computed by logsumexp: gamma may be large.
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
    parts = {"negatives": (images + texts).mean().detach(), "positives": positive.mean().detach()}
    return LossTerms(images + texts - positive, "mean", parts)


def _exponents(batch: Scored, params: Params) -> Float[Tensor, "pairs pairs"]:
    """``g W (S - eps)``; -inf where there is no negative, but for the diagonal of ``code``."""
    exponents = params.gamma * (batch.scores - params.eps)
    if batch.weights is not None:
        exponents = exponents * batch.weights
    exponents = exponents.masked_fill(batch.same, -torch.inf)
    if params.variant != "code":
        return exponents
    # The authors zero the score where there are no weights, and the whole exponent where there are.
    left = -params.gamma * params.eps if batch.weights is None else 0.0
    diagonal = torch.eye(len(exponents), dtype=torch.bool, device=exponents.device)
    return exponents.masked_fill(diagonal, left)


def stuck(mean_loss: float, batch_size: int, params: Params) -> str | None:
    """What to tell the user when no positive has a similarity above 0: relu then passes no gradient.

    The loss is then between 0 and what it is with all similarities at 0. Under ``extended`` no such point exists.
    """
    if params.variant == "extended":
        return None
    negatives = (batch_size - 1) * math.exp(-params.gamma * params.eps)
    if params.variant == "code":  # with a memory bank it counts the positive as 1
        negatives += 1
    if -1e-4 < mean_loss < 1.01 * 2 / params.gamma * math.log1p(negatives) + 1e-4:
        return (
            f"the loss is {mean_loss:.4g}: similarities are 0 or below, where log(1 + relu(S)) pulls no pair together; set "
            "loss.hal.variant: extended, or loss.hal gamma 60 and eps 0.7, or lower train.lr"
        )
    return None
