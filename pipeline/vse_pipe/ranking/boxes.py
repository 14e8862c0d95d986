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
    return ops.box_iou(_exclusive(left), _exclusive(right))


def surviving(
    boxes: Float[Tensor, "boxes 4"], scores: Float[Tensor, "rows boxes"], threshold: float
) -> Bool[Tensor, "rows boxes"]:
    """Greedy non-maximum suppression of the same boxes under each row of scores: the boxes that
    stay. A box is removed where its overlap with a better box that stays is above ``threshold``;
    among equal scores the first box is the better one."""
    corners, stays = _exclusive(boxes).to(scores), torch.zeros_like(scores, dtype=torch.bool)
    for row, values in zip(stays, scores, strict=True):
        row[ops.nms(corners, values, threshold)] = True
    return stays


def _exclusive(boxes: Float[Tensor, "boxes 4"]) -> Float[Tensor, "boxes 4"]:
    """The corners as torchvision has them: the second one lies outside."""
    return boxes + boxes.new_tensor([0, 0, 1, 1])
