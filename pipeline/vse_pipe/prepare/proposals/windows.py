"""Sliding windows of several sizes and shapes: a baseline for other proposals."""

import math
from collections.abc import Iterator
from functools import lru_cache, partial

import numpy as np

from vse_pipe.prepare.proposals.options import WindowsOptions as Params
from vse_pipe.prepare.regions import Picture, Proposed, Proposer

# Bounds of the step in multiples of a window's side: windows on every pixel, and a single window in
# any picture.
_FINEST, _COARSEST, _HALVINGS = 1e-6, 1e6, 60


def proposer(params: Params, count: int, seed: int, device: str = "auto") -> Proposer:
    """Windows of each scale and ratio in even rows and columns from edge to edge; a single window
    is in the middle.

    The step between windows is the same share of their side for all, the smallest with at most
    ``count`` windows. When a window of each kind is already more, the first are taken, scale by
    scale. Pictures are not read; all scores are 0.
    """
    return partial(_windows, params, count)


def _windows(params: Params, count: int, picture: Picture) -> Proposed:
    boxes = _placed(tuple(params.scales), tuple(params.ratios), count, picture.width, picture.height)
    return Proposed(boxes, np.zeros(len(boxes)))


@lru_cache(maxsize=64)
def _placed(scales: tuple[float, ...], ratios: tuple[float, ...], count: int, width: int, height: int) -> np.ndarray:
    shapes = list(dict.fromkeys(_shapes(scales, ratios, width, height)))
    low, high = _FINEST, _COARSEST
    for _ in range(_HALVINGS):
        step = math.sqrt(low * high)
        fits = sum(math.prod(_laid(step, shape, width, height)) for shape in shapes) <= count
        low, high = (low, step) if fits else (step, high)
    laid = [_boxes(shape, _laid(high, shape, width, height), width, height) for shape in shapes]
    boxes = np.concatenate(laid)[:count]
    boxes.flags.writeable = False
    return boxes


def _shapes(scales, ratios, width: int, height: int) -> Iterator[tuple[int, int]]:
    side = math.sqrt(width * height)
    for scale in scales:
        for ratio in ratios:
            across, down = (scale * side * root for root in (math.sqrt(ratio), 1 / math.sqrt(ratio)))
            yield min(width, max(1, round(across))), min(height, max(1, round(down)))


def _laid(step: float, shape: tuple[int, int], width: int, height: int) -> tuple[int, int]:
    """The number of columns and rows of windows, at least ``step`` and a pixel apart."""
    spare = width - shape[0], height - shape[1]
    across, down = (1 + min(room, math.floor(room / (step * side))) for room, side in zip(spare, shape, strict=True))
    return across, down


def _boxes(shape: tuple[int, int], laid: tuple[int, int], width: int, height: int) -> np.ndarray:
    lefts = np.linspace(0, width - shape[0], laid[0]).round() if laid[0] > 1 else np.array([(width - shape[0]) // 2])
    tops = np.linspace(0, height - shape[1], laid[1]).round() if laid[1] > 1 else np.array([(height - shape[1]) // 2])
    x, y = (axis.ravel() for axis in np.meshgrid(lefts, tops))
    return np.stack([x, y, x + shape[0] - 1, y + shape[1] - 1], axis=1).astype(np.float64)
