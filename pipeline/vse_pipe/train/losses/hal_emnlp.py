"""HAL of the EMNLP 2019 paper: SUM or MAX on scores that are multiplied by the density of their
neighbourhoods."""

from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vse_pipe.train.losses.options import HalEmnlpOptions as Params
from vse_pipe.train.scored import LossTerms, Scored, curriculum_count, largest, violations


def loss(batch: Scored, params: Params) -> LossTerms:
    """The hinges of ``sum`` or ``max`` on ``S'_it = S_it e^(mean of K1 + mean of K2)``, positives
    too.

    Source: HAL (EMNLP) Eq. 4 on Eq. 2 or 3; summed over the batch. K1: the k nearest texts of image
    i; K2: the k nearest images of text t, by similarity, or all if there are fewer than k. The
    authors published no code.

    Scores of ``order`` are negative, so a larger exponent weighs a hub less: it lowers the score
    and the hinge of a negative in a dense neighbourhood. Row 1.6 of the paper, order embeddings
    with HAL, still is Eq. 4 as printed.

    Masked captions of the same image are no neighbours. The neighbours of i are its negatives under
    A; under B they are its negatives and its positive, without the other member of the cell.
    """
    hubs = exponents(batch.scores, batch.same, params.k, params.reading)
    if params.gradient == "detached":
        hubs = hubs.detach()
    texts, images = violations(replace(batch, scores=batch.scores * hubs.exp()), params.margin)
    if params.negatives == "sum":
        per_pair = texts.sum(dim=1) + images.sum(dim=0)
    else:
        per_pair = largest(texts, images, curriculum_count(batch, params.curriculum, 1))
    return LossTerms(per_pair, "sum")


def exponents(
    scores: Float[Tensor, "pairs pairs"], same: Bool[Tensor, "pairs pairs"], k: int, reading: Literal["A", "B"]
) -> Float[Tensor, "pairs pairs"]:
    """For each cell (i, t): mean score of image i's k nearest texts plus that of text t's k nearest
    images.

    same: cells that are no negatives. Reading A: neighbours are negatives, so a row has one mean
    and a column has one mean. Reading B: neighbours are the negatives and the positive, without the
    other member of the cell. With fewer than k candidates all count; without candidates the mean is
    0. Memory O(pairs^2).
    """
    k = min(k, len(scores))
    if reading == "A":
        negatives = scores.masked_fill(same, -torch.inf)
        return _mean_of_nearest(negatives, k)[:, None] + _mean_of_nearest(negatives.T, k)[None, :]
    diagonal = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    candidates = scores.masked_fill(same & ~diagonal, -torch.inf)
    return _mean_without_cell(candidates, k) + _mean_without_cell(candidates.T, k).T


def _mean_of_nearest(candidates: Float[Tensor, "rows items"], k: int) -> Float[Tensor, " rows"]:
    """The mean of the k largest finite values of each row; 0 for a row without any."""
    nearest = candidates.topk(min(k, candidates.shape[1]), dim=1).values
    finite = nearest.isfinite()
    return nearest.masked_fill(~finite, 0).sum(dim=1) / finite.sum(dim=1).clamp_min(1)


def _mean_without_cell(candidates: Float[Tensor, "rows items"], k: int) -> Float[Tensor, "rows items"]:
    """For each cell the mean of the k largest values of its row without the cell.

    The k + 1 largest of a row are enough: the neighbours of a cell among them are the other k,
    those of any other cell the first k.
    """
    nearest, places = candidates.topk(min(k + 1, candidates.shape[1]), dim=1)
    finite = nearest.isfinite()
    nearest, count = nearest.masked_fill(~finite, 0), finite.sum(dim=1, keepdim=True)
    first = nearest[:, :k].sum(dim=1, keepdim=True) / count.clamp(1, k)
    rest = (nearest.sum(dim=1, keepdim=True) - nearest) / (count - 1).clamp_min(1)
    return first.expand_as(candidates).scatter(1, places, torch.where(finite, rest, first))
