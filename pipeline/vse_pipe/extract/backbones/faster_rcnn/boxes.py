"""Which boxes of a detector become an image's regions: suppression relaxed until enough are left."""

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torchvision.ops import nms

THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def relaxed_nms(
    boxes: Float[Tensor, "boxes 4"],
    scores: Float[Tensor, " boxes"],
    count: int,
    thresholds: tuple[float, ...] = THRESHOLDS,
) -> Int64[Tensor, " chosen"]:
    """The places of the chosen boxes by falling score, of equal scores the first first; ``count`` of them, or all if fewer.

    Greedy non-maximum suppression, whatever the class: a box goes when its overlap (intersection over union) with a
    better one that stayed is above the threshold. The first threshold that leaves ``count`` boxes decides, and the best
    ``count`` are taken (py-bottom-up-attention). Where the last one leaves fewer, the best of the suppressed fill up.
    Boxes: x1, y1, x2, y2, each of positive area.
    """
    order = scores.argsort(descending=True, stable=True)
    # Overlaps in double: in single, whether 3/10 is above 0.3 is left to rounding.
    ranked, falling = (boxes[order].double(), -torch.arange(len(order), device=boxes.device, dtype=torch.float64))
    kept = torch.arange(0, device=boxes.device)
    for threshold in thresholds:
        kept = nms(ranked, falling, threshold)
        if len(kept) >= count:
            return order[kept[:count]]
    rest = torch.ones(len(order), dtype=torch.bool, device=boxes.device)
    rest[kept] = False
    chosen = torch.cat([kept, rest.nonzero()[: count - len(kept), 0]])
    return order[chosen.sort().values]


def filled(
    boxes: Float[Tensor, "found 4"], scores: Float[Tensor, " found"], count: int, width: float, height: float
) -> tuple[Float[Tensor, "count 4"], Float[Tensor, " count"]]:
    """Exactly ``count`` boxes: where there are fewer, the whole picture and then the cells of the smallest square grid that
    has enough, row by row, all with score 0.
    """
    missing = count - len(boxes)
    if missing <= 0:
        return boxes[:count], scores[:count]
    side = math.isqrt(max(missing - 2, 0)) + 1
    across, down = width / side, height / side
    cells = [[x * across, y * down, (x + 1) * across, (y + 1) * down] for y in range(side) for x in range(side)]
    extra = torch.tensor([[0.0, 0.0, width, height], *cells], dtype=boxes.dtype, device=boxes.device)[:missing]
    return torch.cat([boxes, extra]), torch.cat([scores, scores.new_zeros(missing)])
