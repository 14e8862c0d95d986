"""Sliding windows: how many, how large, where, and that no picture is looked into."""

import math
from pathlib import Path

import numpy as np
import pytest

from tests.prepare.proposals._pictures import proposed
from vse_pipe.pictures.images import Item
from vse_pipe.prepare.regions import Picture


def picture(width: int, height: int) -> Picture:
    """There is no such file."""
    return Picture(Path("nowhere"), Item(1, "no.png", "", "here"), width, height)


@pytest.mark.parametrize("size", [(500, 375), (128, 128), (31, 700), (3, 2), (1, 1)])
@pytest.mark.parametrize("count", [1, 5, 12, 100, 1000])
def test_no_more_than_asked_for_and_hardly_fewer(size, count):
    boxes, scores = proposed("windows", picture(*size), count)
    assert not scores.any()
    if min(size) > 100 and count >= 100:
        assert len(boxes) > 0.8 * count


def test_sizes_are_those_of_every_scale_and_ratio():
    boxes, _ = proposed("windows", picture(400, 300), 200, scales=[0.5, 0.2], ratios=[1.0, 2.0])
    found = {(int(x2 - x1 + 1), int(y2 - y1 + 1)) for x1, y1, x2, y2 in boxes}
    side = math.sqrt(400 * 300)
    expected = {
        (round(scale * side * math.sqrt(ratio)), round(scale * side / math.sqrt(ratio)))
        for scale in (0.5, 0.2)
        for ratio in (1.0, 2.0)
    }
    assert found == expected


def test_they_reach_every_edge_and_stand_evenly():
    boxes, _ = proposed("windows", picture(300, 300), 100, scales=[0.2], ratios=[1.0])
    lefts = np.unique(boxes[:, 0])
    assert boxes[:, :2].min(axis=0).tolist() == [0, 0]
    assert boxes[:, 2:].max(axis=0).tolist() == [299, 299]
    assert len(boxes) == 100
    assert np.ptp(np.diff(lefts)) <= 1


def test_one_of_each_or_the_first_ones():
    boxes, _ = proposed("windows", picture(200, 200), 2, scales=[0.5, 0.25], ratios=[1.0, 4.0])
    assert boxes.tolist() == [[50, 50, 149, 149], [0, 75, 199, 124]]
