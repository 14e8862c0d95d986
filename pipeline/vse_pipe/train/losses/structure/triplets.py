"""Euclidean distances, and the triplets of an anchor that violate a margin the most."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def euclidean(
    left: Float[Tensor, "rows dim"], right: Float[Tensor, "items dim"], floor: float = 0.0
) -> Float[Tensor, "rows items"]:
    """``sqrt(|a - b|^2 + floor)``; where that is the root of 0 the gradient is 0, not NaN."""
    squared = left.square().sum(dim=1)[:, None] + right.square().sum(dim=1)[None, :] - 2 * left @ right.T
    squared = squared.clamp_min(0) + floor
    apart = squared > 0
    return torch.where(apart, squared.where(apart, 1.0).sqrt(), 0.0)


def hardest(
    positives: Float[Tensor, " pairs"],
    anchors: Int[Tensor, " pairs"],
    distances: Float[Tensor, "anchors items"],
    matching: Bool[Tensor, "anchors items"],
    margin: float,
    top: int,
) -> Float[Tensor, "pairs kept"]:
    """The ``top`` largest ``[margin + positive - d(anchor, negative)]+`` of each positive pair, falling.

    positives, anchors: distance and anchor of each positive pair; matching: items that are no negatives of an
    anchor. Columns for which an anchor has no negative left are 0. The nearest negatives of an anchor violate
    all of its pairs the most, so that no array of pairs x items is made.
    """
    negatives = distances.masked_fill(matching, torch.inf)
    near = negatives.topk(min(top, negatives.shape[1]), dim=1, largest=False).values
    return (margin + positives[:, None] - near[anchors]).clamp_min(0)
