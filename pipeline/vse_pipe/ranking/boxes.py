"""How far boxes overlap, and which of those that overlap stay.

Boxes are x1, y1, x2, y2 in pixels, both corners belonging to the box: its width is x2 - x1 + 1. So Flickr30k Entities is
measured (Plummer et al., ICCV 2015; utilities/getIOU.m and external/nms_iou.m of their code).
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torchvision import ops


def iou(left: Float[Tensor, "left 4"], right: Float[Tensor, "right 4"]) -> Float[Tensor, "left right"]:
    """Intersection over union of each box with each other."""
    beyond = left.new_tensor([0, 0, 1, 1])
    return ops.box_iou(left + beyond, right + beyond)


def surviving(
    overlap: Float[Tensor, "boxes boxes"], scores: Float[Tensor, "rows boxes"], threshold: float
) -> Bool[Tensor, "rows boxes"]:
    """Non-maximum suppression of the same boxes by many scores at once: which stay in each row, whichever has an overlap above
    ``threshold`` with a better one that stays goes. overlap: their ``iou``.

    That is asked of all boxes at once and again until nothing changes, which greedy suppression is the fixed point of
    (Cluster-NMS, Zheng et al., 2020). Equal scores in order.
    """
    worse, better = (overlap > threshold).fill_diagonal_(False).nonzero(as_tuple=True)
    beaten = (scores[:, better] > scores[:, worse]) | ((scores[:, better] == scores[:, worse]) & (better < worse))
    stays = torch.ones_like(scores, dtype=torch.bool)
    while True:
        removed = torch.zeros_like(scores).index_add_(1, worse, (beaten & stays[:, better]).to(scores.dtype)) > 0
        if torch.equal(removed, ~stays):
            return stays
        stays = ~removed
