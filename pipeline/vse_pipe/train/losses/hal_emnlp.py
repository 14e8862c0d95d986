"""HAL of the EMNLP 2019 paper: SUM or MAX on scores that grow with the neighbourhoods they lie in."""

from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vse_pipe.train.batch import LossTerms, Scored, curriculum_count, largest, plateau, violations
from vse_pipe.train.losses.options import HalEmnlpOptions as Params


def loss(batch: Scored, params: Params) -> LossTerms:
    """The hinges of ``sum`` or ``max`` on ``S'_it = S_it e^(mean of K1 + mean of K2)``, positives too.

    Source: HAL (EMNLP) Eq. 4 on Eq. 2 or 3; summed over the batch. K1: the k nearest texts of image i, K2:
    the k nearest images of text t, by similarity, which for unit vectors is by distance. The authors
    published no code for it. More neighbours than there are: all.

    Where scores are negative, as all of ``order`` are, a larger exponent weighs a hub less, not more: it makes a negative
    score more negative, so that of two negatives with the same score the one in the denser neighbourhood has the smaller
    hinge. Row 1.6 of the paper, order embeddings with HAL, is Eq. 4 as printed all the same.

    Captions of the same image that are masked are nobody's neighbours. Under A the neighbours of i are then
    exactly its negatives; under B they are its negatives and its one positive, less the other member of the
    cell.
    """
    hubs = exponents(batch.scores, batch.same, params.k, params.reading)
    if params.gradient == "detached":
        hubs = hubs.detach()
    texts, images = violations(replace(batch, scores=batch.scores * hubs.exp()), params.margin)
    if params.negatives == "sum":
        per_pair = texts.sum(dim=1) + images.sum(dim=0)
    else:
        per_pair = largest(texts, images, curriculum_count(batch, params.curriculum, 1))
    parts = {"violations": ((texts > 0).sum() + (images > 0).sum()).detach(), "exponent": hubs.mean().detach()}
    return LossTerms(per_pair, "sum", parts)


def stuck(mean_loss: float, batch_size: int, params: Params) -> str | None:
    """``max`` alone has the plateau of MAX: equal similarities stay equal when they are rescaled."""
    return plateau(mean_loss, batch_size, params.margin) if params.negatives == "max" else None


def exponents(
    scores: Float[Tensor, "pairs pairs"], same: Bool[Tensor, "pairs pairs"], k: int, reading: Literal["A", "B"]
) -> Float[Tensor, "pairs pairs"]:
    """For each cell (i, t): mean score of image i's k nearest texts plus that of text t's k nearest images.

    same: cells that are no negatives. Reading A: neighbours are negatives, so that all cells of a row share
    one mean and all cells of a column another. Reading B: neighbours are the negatives and the positive,
    without the cell's own other member. Fewer than k candidates: all of them; none: 0. Memory O(pairs^2) in
    both.
    """
    k = min(k, len(scores))
    if reading == "A":
        negatives = scores.masked_fill(same, -torch.inf)
        return _mean_of_nearest(negatives, k)[:, None] + _mean_of_nearest(negatives.T, k)[None, :]
    diagonal = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    candidates = scores.masked_fill(same & ~diagonal, -torch.inf)
    return _mean_without_own(candidates, k) + _mean_without_own(candidates.T, k).T


def _mean_of_nearest(candidates: Float[Tensor, "rows items"], k: int) -> Float[Tensor, " rows"]:
    """Over the k largest values of each row that are not -inf; 0 for a row that has none."""
    nearest = candidates.topk(min(k, candidates.shape[1]), dim=1).values
    real = nearest.isfinite()
    return nearest.masked_fill(~real, 0).sum(dim=1) / real.sum(dim=1).clamp_min(1)


def _mean_without_own(candidates: Float[Tensor, "rows items"], k: int) -> Float[Tensor, "rows items"]:
    """For each cell the mean of the k largest values of its row, its own left out.

    The k + 1 largest of a row are enough: a cell among them has the other k for neighbours, any other cell the
    first k.
    """
    nearest, places = candidates.topk(min(k + 1, candidates.shape[1]), dim=1)
    real = nearest.isfinite()
    nearest, count = nearest.masked_fill(~real, 0), real.sum(dim=1, keepdim=True)
    first = nearest[:, :k].sum(dim=1, keepdim=True) / count.clamp(1, k)
    rest = (nearest.sum(dim=1, keepdim=True) - nearest) / (count - 1).clamp_min(1)
    return first.expand_as(candidates).scatter(1, places, torch.where(real, rest, first))
