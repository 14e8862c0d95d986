"""HAL: hubness-aware loss without the memory bank (HAL, AAAI 2020)."""

from typing import Literal

import torch
from pydantic import PositiveFloat

from pipeline.params.strict import Strict
from pipeline.train.losses._scored import Scored
from pipeline.train.losses._terms import LossTerms


class Params(Strict):
    """gamma: inverse temperature; eps: the similarity above which a negative starts to hurt (Table 3: 30, 0.3 on COCO)."""

    gamma: PositiveFloat = 30.0
    eps: float = 0.3
    variant: Literal["paper", "code"] = "paper"


def loss(batch: Scored, params: Params) -> LossTerms:
    """``1/g log(1 + sum_m e^(g(S_mi - eps))) + 1/g log(1 + sum_n e^(g(S_in - eps))) - log(1 + relu(S_ii))`` for pair i.

    Source: HAL (Liu et al., AAAI 2020) Eq. 7 with W = 1; mean over the batch. The paper's ``log(1 + S_ii)`` is
    undefined for S_ii <= -1; both variants use the authors' relu. ``code`` also keeps their zeroed diagonal, which
    adds ``e^(-g eps)`` to each inner sum; ``paper`` leaves the positive out. Computed by logsumexp: gamma may be large.
    """
    scores = batch.scores
    exponents = params.gamma * (scores - params.eps)
    diagonal = -params.gamma * params.eps if params.variant == "code" else -torch.inf
    exponents = exponents.masked_fill(batch.same, diagonal)
    one = exponents.new_zeros(len(scores), 1)
    images = torch.cat([one, exponents.T], dim=1).logsumexp(dim=1) / params.gamma
    texts = torch.cat([one, exponents], dim=1).logsumexp(dim=1) / params.gamma
    positive = torch.log1p(scores.diagonal().relu())
    parts = {"negatives": (images + texts).mean().detach(), "positives": positive.mean().detach()}
    return LossTerms(images + texts - positive, "mean", parts)


def stuck(mean_loss: float, batch_size: int, params: Params) -> str | None:
    """What to tell the user when no positive pair has a similarity above 0: relu then passes no gradient to any of them."""
    if abs(mean_loss) < 1e-4:
        return "the loss is 0: all similarities are negative and nothing is learnt any more; lower train.lr"
    return None
