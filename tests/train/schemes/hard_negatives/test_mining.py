from collections import Counter

import numpy as np
import pytest
import torch

from tests.naive import mining as naive
from tests.train.some import member, some_model
from vse_pipe.artifacts.texts import Texts
from vse_pipe.project.registry import TEXT_ENCODERS
from vse_pipe.train.engine.data import Pairs
from vse_pipe.train.engine.encode import evaluating
from vse_pipe.train.engine.incidence import Incidence
from vse_pipe.train.engine.regions import TrainRegions
from vse_pipe.train.schemes.hard_negatives.mining import Mined, mine

CPU = torch.device("cpu")


def _boxes(rng, count: int) -> np.ndarray:
    corners = rng.integers(0, 12, (count, 2))
    return np.concatenate([corners, corners + rng.integers(4, 14, (count, 2))], axis=1).astype(np.float64)


def _setting(seed: int, count: int = 40, proposals: int = 60, pictures: int = 7):
    """Pairs of ten regions and six texts in seven pictures, proposals in all but the last, and a model of them."""
    rng = np.random.default_rng(seed)
    array = rng.standard_normal((10 + proposals, 6)).astype(np.float32)
    owners, said = np.divmod(np.sort(rng.choice(60, count, replace=False)), 6)
    vectors = rng.standard_normal((6, 5)).astype(np.float32)
    texts = Texts("vectors", np.arange(6), {}, None, [], vectors, np.arange(6))
    # Regions 10 to 14 belong to texts and are in no pair.
    further = rng.integers(0, 15, 12), rng.integers(0, 6, 12)
    known = Incidence.of(owners, said, *further)
    pairs = Pairs(array, owners, texts, said, owners, incidence=known)
    of_region, boxes = rng.permutation(15) % pictures, _boxes(rng, 15)
    shown = np.setdiff1d(of_region[owners], [pictures - 1])
    where = np.sort(rng.choice(shown, proposals))
    named = boxes[known.ids], of_region[known.ids]
    regions = TrainRegions(*named, 10 + rng.permutation(proposals), _boxes(rng, proposals), where)
    model = some_model(pairs, text=member(TEXT_ENCODERS, "two_branch", nonlinear=False), size=4, seed=seed)
    return model, pairs, regions


def _expected(model, pairs, regions, limit) -> set[tuple[int, int]]:
    with evaluating(model):
        scores = model.score(model.img(torch.from_numpy(pairs.array)), model.txt(torch.from_numpy(pairs.texts.array)))
    known, shown = pairs.incidence, set(pairs.rows.tolist())
    told = [
        {
            "text": text,
            "picture": regions.pictures[number],
            "box": regions.boxes[number].tolist(),
            "score": float(scores[region, text]) if region in shown else None,
            "pair": (region, text) in {*zip(pairs.rows.tolist(), pairs.places.tolist(), strict=True)},
        }
        for number, region in enumerate(known.ids.tolist())
        for text in range(6)
        if known.by_image[number, text]
    ]
    others = [
        {"row": row, "picture": picture, "box": box, "score": scores[row].tolist()}
        for row, picture, box in zip(
            regions.rows.tolist(), regions.proposed_in.tolist(), regions.proposals.tolist(), strict=True
        )
    ]
    return naive.mined(told, others, limit)


@pytest.mark.parametrize("limit", [0.5, 0.2, None])
@pytest.mark.parametrize("at_once", [1, 15, 4096])
def test_equals_plain_loops_however_few_are_held_at_once(limit, at_once):
    for seed in range(4):
        model, pairs, regions = _setting(seed)
        found = mine(model, pairs, regions, 60, limit, CPU, np.random.default_rng(0), at_once)
        expected = _expected(model, pairs, regions, limit)
        assert set(zip(found.texts.tolist(), found.rows.tolist(), strict=True)) == expected
        assert len(found.texts) == len(expected) > 5
        assert (np.diff(found.texts) >= 0).all()


def test_at_most_so_many_of_each_text_are_drawn():
    model, pairs, regions = _setting(1)
    everything = mine(model, pairs, regions, 60, 0.5, CPU, np.random.default_rng(0))
    some, others = (mine(model, pairs, regions, 3, 0.5, CPU, np.random.default_rng(seed)) for seed in (0, 1))
    counts = Counter(everything.texts.tolist())
    assert max(counts.values()) > 3
    assert Counter(some.texts.tolist()) == {text: min(count, 3) for text, count in counts.items()}
    assert some.rows.tolist() != others.rows.tolist()
    both = [set(zip(one.texts.tolist(), one.rows.tolist(), strict=True)) for one in (some, everything)]
    assert both[0] < both[1]


def test_without_anything_mined_nothing_is_drawn():
    nothing = Mined(np.empty(0, np.int32), np.empty(0, np.int64))
    assert len(nothing.draw(np.array([0, 4]), 2, np.random.default_rng(0))) == 0


def test_a_draw_takes_up_to_so_many_of_each_text():
    given = Mined(np.array([1, 1, 1, 4, 6, 6], np.int32), np.arange(10, 16))
    seen = set()
    for seed in range(40):
        drawn = given.draw(np.array([1, 2, 6, 9]), 2, np.random.default_rng(seed))
        assert given.texts[drawn].tolist() == [1, 1, 6, 6]
        seen |= set(drawn.tolist())
    assert seen == {0, 1, 2, 4, 5}
