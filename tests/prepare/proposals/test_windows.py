"""Sliding windows: how many, how large, where."""

import math
from pathlib import Path

import numpy as np
import pytest

from tests.prepare.proposals._pictures import proposed
from vse_pipe.pictures.images import Item
from vse_pipe.prepare.regions import Picture


def windows(size: tuple[int, int], count: int, **options) -> np.ndarray:
    """Of a picture of which there is no file."""
    boxes, scores = proposed(
        "windows", Picture(Path("nowhere"), Item(1, "no.png", "", "here"), *size), count, **options
    )
    assert not scores.any()
    return boxes


@pytest.mark.parametrize("size", [(500, 375), (128, 128), (31, 700), (3, 2), (1, 1)])
@pytest.mark.parametrize("count", [1, 5, 12, 100, 1000])
def test_no_more_than_asked_for_and_hardly_fewer(size, count):
    boxes = windows(size, count)
    assert len(boxes) > 0.8 * count or min(size) <= 100 or count < 100


def test_sizes_are_those_of_every_scale_and_ratio():
    boxes = windows((400, 300), 200, scales=[0.5, 0.2], ratios=[1.0, 2.0])
    sides = [(scale * math.sqrt(400 * 300), math.sqrt(ratio)) for scale in (0.5, 0.2) for ratio in (1.0, 2.0)]
    expected = {(round(side * root), round(side / root)) for side, root in sides}
    assert {(int(x2 - x1 + 1), int(y2 - y1 + 1)) for x1, y1, x2, y2 in boxes} == expected


def test_they_reach_every_edge_and_stand_evenly():
    boxes = windows((300, 300), 100, scales=[0.2], ratios=[1.0])
    assert boxes[:, :2].min(axis=0).tolist() == [0, 0]
    assert (boxes[:, 2:].max(axis=0).tolist(), len(boxes)) == ([299, 299], 100)
    assert np.ptp(np.diff(np.unique(boxes[:, 0]))) <= 1
    one_of_each = windows((200, 200), 2, scales=[0.5, 0.25], ratios=[1.0, 4.0])
    assert one_of_each.tolist() == [[50, 50, 149, 149], [0, 75, 199, 124]]
