"""Overlap of boxes, and non-maximum suppression.

Boxes are x1, y1, x2, y2 in pixels and include both corners: the width is x2 - x1 + 1. Flickr30k
Entities is measured in the same way (Plummer et al., ICCV 2015; utilities/getIOU.m and
external/nms_iou.m of their code)."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torchvision import ops


def iou(left: Float[Tensor, "left 4"], right: Float[Tensor, "right 4"]) -> Float[Tensor, "left right"]:
    """Intersection over union of each left box with each right box."""
    beyond = left.new_tensor([0, 0, 1, 1])
    return ops.box_iou(left + beyond, right + beyond)


def surviving(
    overlap: Float[Tensor, "boxes boxes"], scores: Float[Tensor, "rows boxes"], threshold: float
) -> Bool[Tensor, "rows boxes"]:
    """Non-maximum suppression of the same boxes under many scores at once: the boxes that stay in
    each row. A box is removed where its overlap with a better box that stays is above
    ``threshold``. overlap: ``iou`` of the boxes.

    All boxes are decided at once, repeatedly until nothing changes; greedy suppression is the fixed
    point (Cluster-NMS, Zheng et al., 2020). Among equal scores the first box is the better one."""
    worse, better = (overlap > threshold).fill_diagonal_(False).nonzero(as_tuple=True)
    beaten = (scores[:, better] > scores[:, worse]) | ((scores[:, better] == scores[:, worse]) & (better < worse))
    stays = torch.ones_like(scores, dtype=torch.bool)
    while True:
        removed = torch.zeros_like(scores).index_add_(1, worse, (beaten & stays[:, better]).to(scores.dtype)) > 0
        if torch.equal(removed, ~stays):
            return stays
        stays = ~removed
