"""Ranks, floor, suppression and average precision against loops over phrases and boxes, on random scenes."""

import numpy as np
import pytest
import torch
from torchvision import ops

from tests.naive import stages as naive
from vse_pipe.localize.scenes import BoxScene, Ranks, average_precisions, joined
from vse_pipe.project.params.schema import LocalizeParams
from vse_pipe.ranking import boxes

TEXTS, PICTURES, THRESHOLD = ("a man", "a dog", "two men", "a hat"), 5, 0.5
Scenes = tuple[list[BoxScene], list[naive.Mention], dict[int, list[naive.Box]]]


def random_boxes(rng: np.random.Generator, count: int) -> list[naive.Box]:
    corners, sizes = rng.integers(0, 8, (count, 2)), rng.integers(0, 6, (count, 2))
    return [tuple(map(float, row)) for row in np.hstack([corners, corners + sizes])]


def made(seed: int) -> Scenes:
    """Few boxes and few different scores, so that overlaps and ties are frequent; the last picture has no proposal."""
    rng = np.random.default_rng(seed)
    scenes, mentions, proposals, first, low = [], [], {}, 0, 0
    for place in range(PICTURES):
        count, proposed = int(rng.integers(1, 7)), int(rng.integers(3, 9)) * (place < PICTURES - 1)
        texts = rng.choice(TEXTS, count)
        scores = {text: (rng.integers(0, 6, proposed) / 8).tolist() for text in TEXTS}
        true, proposals[place] = random_boxes(rng, count), random_boxes(rng, proposed)
        mentions += [(place, str(text), box, scores[text]) for text, box in zip(texts, true, strict=True)]
        held = np.array([scores[text] for text in texts], np.float32).reshape(count, proposed)
        found = torch.tensor(proposals[place], dtype=torch.float64).reshape(proposed, 4)
        rows = slice(first, first + count), slice(low, low + proposed)
        scenes.append(BoxScene(place, *rows, torch.tensor(true, dtype=torch.float64), found, torch.from_numpy(held)))
        first, low = first + count, low + proposed
    return scenes, mentions, proposals


@pytest.mark.parametrize("seed", range(4))
def test_ranks_bound_and_floor(seed: int) -> None:
    scenes, mentions, proposals = made(seed)
    ranks = joined([Ranks.from_scene(scene, THRESHOLD) for scene in scenes])
    for row, mention in enumerate(mentions):
        own = proposals[mention[0]]
        overlaps = [naive.overlap(mention[2], box) for box in own]
        hits = [value >= THRESHOLD for value in overlaps]
        rank = naive.rank(mention, own, THRESHOLD)
        assert (ranks.candidates[row], ranks.correct[row]) == (len(own), sum(hits))
        assert ranks.bound[row] == pytest.approx(max(overlaps, default=0.0))
        assert np.isnan(ranks.rank[row]) if rank is None else ranks.rank[row] == rank
        for k in (1, 2, 5, 10):
            assert (ranks.rank[row] <= k) == (rank is not None and rank <= k)
            assert ranks.chance(k)[row] == pytest.approx(naive.chance(hits, k) if hits else 0.0)
        if own:
            best = int(np.argmax(mention[3]))
            assert ranks.best[row] == best + scenes[mention[0]].proposals.start
            assert ranks.iou[row] == pytest.approx(overlaps[best])
        else:
            assert ranks.best[row] == -1


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("seed", range(4))
def test_suppression_of_many_orders_is_that_of_each(seed: int, threshold: float) -> None:
    rng = np.random.default_rng(seed)
    own = random_boxes(rng, 12)
    held = torch.tensor(own, dtype=torch.float64)
    scores = torch.from_numpy(rng.integers(0, 6, (5, 12)) / 8)
    stays = boxes.surviving(held, scores, threshold)
    for row, values in zip(stays, scores, strict=True):
        assert set(row.nonzero().ravel().tolist()) == set(naive.suppressed(own, values.tolist(), threshold))
        theirs = ops.nms(held + torch.tensor([0, 0, 1, 1]), values, threshold)
        assert sorted(theirs.tolist()) == row.nonzero().ravel().tolist()


def options(nms: float, eleven: bool) -> LocalizeParams:
    way = "eleven_point" if eleven else "area"
    return LocalizeParams(threshold=THRESHOLD, nms=nms, average_precision=way)


@pytest.mark.parametrize("eleven", [False, True])
@pytest.mark.parametrize("nms", [0.3, 0.8])
@pytest.mark.parametrize("seed", range(3))
def test_average_precision_of_every_phrase(seed: int, nms: float, eleven: bool) -> None:
    scenes, mentions, proposals = made(seed)
    unique, names = np.unique([text for _, text, _, _ in mentions], return_inverse=True)
    precisions = average_precisions(scenes, names, options(nms, eleven))
    for text, value in zip(unique, precisions, strict=True):
        expected = naive.localize_average_precision(str(text), mentions, proposals, THRESHOLD, nms, eleven)
        assert value == pytest.approx(100 * expected)


def test_a_perfect_ranking_has_full_precision_and_no_ranking_none() -> None:
    scenes, mentions, _ = made(0)
    perfect = [
        BoxScene(place, scene.mentions, scene.mentions, scene.truth, scene.truth, torch.eye(len(scene.truth)))
        for place, scene in enumerate(scenes)
    ]
    names = np.arange(len(mentions))  # every mention a phrase of its own
    assert (average_precisions(perfect, names, options(0.999, False)) == 100).all()
    last = scenes[-1]
    assert not last.scores.shape[1]
    assert (average_precisions(scenes, names, options(0.8, True))[last.mentions] == 0).all()
