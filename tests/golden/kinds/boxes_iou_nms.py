"""Overlaps of boxes and what non-maximum suppression leaves, corners counted in ("plus1") and not ("plain")."""

import numpy as np
import torch

from tests.golden.compare import compare, exact
from vse_pipe.ranking.boxes import iou, surviving


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    boxes, scores = torch.tensor(arrays["boxes"]), torch.tensor(arrays["scores"])
    # Without the last pixel that ours counts in, boxes in continuous coordinates have the same width here.
    corners = {"plus1": boxes, "plain": boxes - torch.tensor([0.0, 0.0, 1.0, 1.0])}
    results = [compare("iou_plus1", iou(boxes, boxes).numpy(), arrays["iou_plus1"], 1e-12)]
    for name in sorted(arrays):
        if name.startswith("nms_"):
            _, kind, tenths = name.split("_")
            stays = surviving(iou(corners[kind], corners[kind]), scores[None], int(tenths) / 10)[0]
            best = scores.argsort(descending=True, stable=True)
            results.append(exact(name, best[stays[best]].numpy(), arrays[name]))
    return results
