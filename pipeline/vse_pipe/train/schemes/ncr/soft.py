"""Labels that say how well a pair fits, and the triplet loss whose margin follows them (NCR, NeurIPS 2021)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.train.engine.loss.sample import sample_losses
from vse_pipe.train.engine.loss.scored import Scored
from vse_pipe.train.schemes.ncr import Shape, Variant


def predicted(batch: Scored, margin: float) -> Float[Tensor, " pairs"]:
    """How well each pair fits under these scores, from 0 to 1, against the best of its batch.

    ``p_i = clamp(m - (mean_t [m - S_ii + S_it]+ + mean_j [m - S_ii + S_ji]+) / 2, 0, m)`` divided by the mean of the
    ``B // 10 + 1`` largest of the batch, at most 1. Where no pair of the batch fits at all every prediction is 0.
    """
    fits = (margin - sample_losses(batch, margin) / 2).clamp(0, margin)
    best = fits.topk(len(fits) // 10 + 1).values.mean()
    return (fits / best).clamp(0, 1) if best > 0 else torch.zeros_like(fits)


def refined(
    clean: Float[Tensor, " pairs"], prediction: Float[Tensor, " pairs"], variant: Variant
) -> Float[Tensor, " pairs"]:
    """Labels of pairs taken for clean: 1 and the network's own prediction, weighed by the probability of being clean.

    The authors' ``code`` takes the prediction of the batch's first pair for all of them.
    """
    own = prediction if variant == "paper" else prediction[:1]
    return clean + (1 - clean) * own


def soft_margins(labels: Float[Tensor, " pairs"], margin: float, shape: Shape) -> Float[Tensor, " pairs"]:
    """0 for a label of 0, ``margin`` for one of 1. ``exponential``: ``m (10^y - 1) / 9``; ``linear``: ``m y``; ``sin``:
    ``m (sin(pi y - pi / 2) / 2 + 1 / 2)``."""
    if shape == "linear":
        return margin * labels
    if shape == "sin":
        return margin * (torch.sin(math.pi * labels - math.pi / 2) / 2 + 0.5)
    return margin * (10**labels - 1) / 9


def soft_triplets(batch: Scored, margins: Float[Tensor, " pairs"], variant: Variant) -> Float[Tensor, " pairs"]:
    """``max_t [m_i - S_ii + S_it]+ + max_j [m_i - S_ii + S_ji]+`` of each pair i.

    In the authors' ``code`` a negative image j of caption i comes with the margin m_j of its own pair.
    """
    positives = batch.scores.diagonal()
    own = margins if variant == "paper" else margins[:, None]
    texts = margins[:, None] - positives[:, None] + batch.scores
    images = own - positives[None, :] + batch.scores
    texts, images = (side.clamp_min(0).masked_fill(batch.same, 0) for side in (texts, images))
    return texts.max(dim=1).values + images.max(dim=0).values
