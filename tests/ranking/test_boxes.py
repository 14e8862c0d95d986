"""Overlaps pixel by pixel, those of the oracles as well, and suppression one box at a time."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import stages as naive
from vse_pipe.ranking.boxes import iou, surviving

corner = st.integers(0, 12)
box = st.tuples(corner, corner, corner, corner).map(
    lambda c: (min(c[0], c[2]), min(c[1], c[3]), max(c[0], c[2]), max(c[1], c[3]))
)
boxes = st.lists(box, min_size=1, max_size=7).map(lambda found: torch.tensor(found, dtype=torch.float64))


def drawn(one: torch.Tensor) -> np.ndarray:
    canvas = np.zeros((13, 13), bool)
    x1, y1, x2, y2 = (int(value) for value in one)
    canvas[y1 : y2 + 1, x1 : x2 + 1] = True
    return canvas


def overlap(a: torch.Tensor, b: torch.Tensor) -> float:
    return (drawn(a) & drawn(b)).sum() / (drawn(a) | drawn(b)).sum()


@given(boxes, boxes)
def test_pixels_are_counted(left, right):
    counted = [[overlap(a, b) for b in right] for a in left]
    assert np.allclose(iou(left, right), counted, rtol=1e-15)
    assert np.allclose([[naive.overlap(a, b) for b in right.tolist()] for a in left.tolist()], counted, rtol=1e-15)


@given(boxes, st.randoms(), st.sampled_from([0.3, 0.5, 0.8]))
def test_whatever_overlaps_a_better_one_goes(found, random, threshold):
    scores = torch.tensor(random.sample(range(len(found)), len(found)), dtype=torch.float64)
    stays = []
    for place in scores.argsort(descending=True).tolist():
        if all(overlap(found[place], found[other]) <= threshold for other in stays):
            stays.append(place)
    assert surviving(iou(found, found), scores[None], threshold)[0].nonzero().ravel().tolist() == sorted(stays)
    assert naive.suppressed(found.tolist(), scores.tolist(), threshold) == stays
