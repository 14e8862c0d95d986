"""Relaxed suppression and its fill against plain loops."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import regions as naive
from vse_pipe.extract.backbones.faster_rcnn import boxes as _boxes

# Few places and scores, so that overlaps of exactly 0.5, equal boxes and equal scores are common.
BOX = st.tuples(*[st.integers(0, 5)] * 2, *[st.integers(1, 5)] * 2).map(
    lambda box: [float(box[0]), float(box[1]), float(box[0] + box[2]), float(box[1] + box[3])]
)
SCORED = st.lists(st.tuples(BOX, st.integers(0, 4).map(lambda score: score / 4)), min_size=0, max_size=25)


def tensors(scored: list) -> tuple[torch.Tensor, torch.Tensor]:
    boxes = torch.tensor([box for box, _ in scored]).reshape(-1, 4)
    return boxes, torch.tensor([score for _, score in scored])


@settings(deadline=None)
@given(SCORED, st.integers(1, 12))
def test_matches_the_loop(scored: list, count: int) -> None:
    boxes, scores = tensors(scored)
    found = _boxes.relaxed_nms(boxes, scores, count).tolist()
    assert found == naive.relaxed(boxes.tolist(), scores.tolist(), count, list(_boxes.THRESHOLDS))


@settings(deadline=None)
@given(SCORED, st.integers(1, 12))
def test_the_best_box_is_always_in_and_none_is_in_twice(scored: list, count: int) -> None:
    boxes, scores = tensors(scored)
    found = _boxes.relaxed_nms(boxes, scores, count)
    assert len(found) == min(count, len(scored))
    assert len(set(found.tolist())) == len(found)
    assert scores[found].tolist() == sorted(scores[found].tolist(), reverse=True)
    if scored:
        assert scores[found[0]] == scores.max()


def test_the_threshold_rises_only_as_far_as_needed() -> None:
    """Overlaps with the first box: 0.6 and 0.25. Two boxes are left at 0.3, three only from 0.6 on."""
    boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 6], [6, 0, 16, 10]])
    scores = torch.tensor([0.9, 0.8, 0.7])
    assert _boxes.relaxed_nms(boxes, scores, 2).tolist() == [0, 2]
    assert _boxes.relaxed_nms(boxes, scores, 3).tolist() == [0, 1, 2]
    assert _boxes.relaxed_nms(boxes, scores, 3, thresholds=(0.3,)).tolist() == [0, 1, 2]
    assert _boxes.relaxed_nms(boxes, scores, 2, thresholds=(0.6,)).tolist() == [0, 1]


@settings(deadline=None)
@given(SCORED, st.integers(1, 40))
def test_there_are_always_enough_boxes(scored: list, count: int) -> None:
    boxes, scores = tensors(scored)
    found, values = _boxes.filled(boxes, scores, count, 20.0, 10.0)
    assert found.shape == (count, 4)
    own = min(count, len(boxes))
    assert torch.equal(found[:own], boxes[:own])
    extra = found[own:]
    assert not values[own:].any()
    if len(extra):
        assert extra[0].tolist() == [0, 0, 20, 10]
        assert ((extra[:, 2:] - extra[:, :2]) > 0).all()
        assert (extra[:, 2:] <= torch.tensor([20.001, 10.001])).all()
        assert len({tuple(box) for box in extra[1:].tolist()}) == len(extra) - 1


@pytest.mark.parametrize(("count", "side"), [(2, 1), (3, 2), (5, 2), (6, 3), (36, 6), (38, 7)])
def test_the_smallest_grid_that_has_enough(count: int, side: int) -> None:
    found, _ = _boxes.filled(torch.zeros(0, 4), torch.zeros(0), count, 42.0, 84.0)
    assert found[1].tolist() == [0, 0, 42 / side, 84 / side]
