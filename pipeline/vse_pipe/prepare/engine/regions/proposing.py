"""What a way to propose boxes is given and gives, and what is made of it: whole pixels, no box twice, the best of them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from vse_pipe.core.errors import InputError
from vse_pipe.pictures import images
from vse_pipe.pictures.images import Item


class Proposed(NamedTuple):
    """boxes: float64 (n, 4), x1, y1, x2, y2 in pixels of the upright picture from 0, both corners inside; scores: (n,)."""

    boxes: np.ndarray
    scores: np.ndarray

    @classmethod
    def ranked(cls, edges: np.ndarray) -> "Proposed":
        """Of a method that gives an order and no scores: 1 for the first box, and evenly falling. edges: x1, y1, x2, y2 between
        pixels, so that x2 - x1 is a width."""
        return cls(edges - np.array([0.0, 0.0, 1.0, 1.0]), np.linspace(1, 0, len(edges), endpoint=False))


@dataclass(frozen=True)
class Seen:
    """A picture that boxes are proposed for. item: its row of images.parquet; width, height: pixels, upright."""

    root: Path
    item: Item
    width: int
    height: int

    def load(self) -> Image.Image:
        """Upright, in RGB. Raises as ``images.load``."""
        return images.load(self.root, self.item)


Proposer = Callable[[Seen], Proposed]


def settled(proposed: Proposed, seen: Seen, count: int) -> Proposed:
    """The ``count`` best of them, of equal scores the first: whole pixels, cut at the picture's edges, no box twice (the best
    score stays) and none of which nothing lies in the picture. Raises InputError when none is left."""
    boxes = clipped(proposed.boxes, seen.width, seen.height)
    inside = (boxes[:, 2:] >= boxes[:, :2]).all(axis=1)
    boxes, scores = boxes[inside], proposed.scores[inside]
    order = np.argsort(-scores, kind="stable")
    _, first = np.unique(boxes[order], axis=0, return_index=True)
    chosen = order[np.sort(first)[:count]]
    if not len(chosen):
        raise InputError(f"{seen.item.where}: no box was proposed for {seen.item.file}")
    return Proposed(boxes[chosen], scores[chosen])


def clipped(boxes: np.ndarray, width, height) -> np.ndarray:
    """The smallest whole pixels that hold each box, those of them inside the picture; width, height: numbers, or one a box.

    Of a box that lies wholly outside x2 < x1 or y2 < y1."""
    low = np.maximum(np.floor(boxes[:, :2]), 0)
    high = np.minimum(np.ceil(boxes[:, 2:]), np.stack(np.broadcast_arrays(width, height), axis=-1) - 1)
    return np.concatenate([low, high], axis=1)
