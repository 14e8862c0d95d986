"""The logarithms of the matching probabilities within a batch, and the cross entropies made of them."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.train.engine.loss.floor import FLOOR
from vse_pipe.train.engine.loss.scored import Scored
from vse_pipe.train.engine.loss.terms import LossTerms


def log_chances(
    batch: Scored, tau: float | Float[Tensor, ""]
) -> tuple[Float[Tensor, "pairs pairs"], Float[Tensor, "pairs pairs"]]:
    """``log softmax(S / tau)``: of the texts for each image, by rows, and of the images for each text, by
    rows again.

    Cells that are no negatives take no part, the positives apart: their logarithm is -inf, their gradient 0.
    """
    diagonal = torch.eye(len(batch.scores), dtype=torch.bool, device=batch.scores.device)
    logits = (batch.scores / tau).masked_fill(batch.same & ~diagonal, -torch.inf)
    return logits.log_softmax(dim=1), logits.T.log_softmax(dim=1)


def own_chances(batch: Scored, tau: float) -> Float[Tensor, " pairs"]:
    """``p_ii``, how probably each pair is matched, the mean of both directions."""
    texts, images = log_chances(batch, tau)
    return (texts.diagonal().exp() + images.diagonal().exp()) / 2


def cross_entropy(batch: Scored, tau: float | Float[Tensor, ""]) -> LossTerms:
    """InfoNCE: ``-log p_ii`` of both directions, added."""
    texts, images = log_chances(batch, tau)
    to_texts, to_images = -texts.diagonal(), -images.diagonal()
    parts = {"texts": to_texts.mean().detach(), "images": to_images.mean().detach()}
    return LossTerms(to_texts + to_images, "mean", parts)


def with_reverse(batch: Scored, tau: float, floor: float = FLOOR) -> LossTerms:
    """Half of the sum of cross entropy and reverse cross entropy, each of both directions."""
    texts, images = log_chances(batch, tau)
    cross = -texts.diagonal() - images.diagonal()
    reverse = _reverse(texts, floor) + _reverse(images, floor)
    parts = {"ce": cross.mean().detach(), "rce": reverse.mean().detach()}
    return LossTerms(0.5 * (cross + reverse), "mean", parts)


def _reverse(log_chances: Float[Tensor, "pairs pairs"], floor: float) -> Float[Tensor, " pairs"]:
    """``-sum_t p_it log(delta_it + floor)``: all labels but the own are 0, so two logarithms are enough."""
    own = log_chances.diagonal().exp()
    diagonal = torch.eye(len(own), dtype=torch.bool, device=own.device)
    # Summed, not 1 - own: in float32 that would lose chances below 1e-7.
    others = log_chances.masked_fill(diagonal, -torch.inf).exp().sum(dim=1)
    return -own * math.log1p(floor) - others * math.log(floor)
