"""How close the neighbourhoods of an image and of a text lie: the exponent of HAL's Eq. 4 (EMNLP)."""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor


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
    others = (nearest.sum(dim=1, keepdim=True) - nearest) / (count - 1).clamp_min(1)
    return first.expand_as(candidates).scatter(1, places, torch.where(real, others, first))
