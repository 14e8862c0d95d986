import pytest
import torch

from tests.naive import criteria as naive
from tests.ranking.similarities.fragments import (
    SHAPE,
    Model,
    Sgraf,
    as_lists,
    captions_of,
    gradients,
    inputs,
    small_chunks,
)


class TestSgraf(Sgraf):
    name = "sgr"


def model(**options) -> Model:
    return Model("sgr", **{"sim_dim": 5, **options})


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_equals_plain_loops(steps):
    ours, (images, words) = model(steps=steps), inputs()
    scores = ours(images, words)
    for i, regions in enumerate(images.tolist()):
        for t, caption in enumerate(captions_of(words)):
            expected = naive.sgr(as_lists(ours), regions, caption, steps, 9.0)
            assert scores[i, t].item() == pytest.approx(expected, abs=1e-9)


def test_training_gives_the_same_in_chunks(monkeypatch):
    ours, (images, words) = model(dropout=0.0), inputs()
    ours.network.train()
    weights = torch.randn(SHAPE[0], len(words), dtype=torch.float64)
    whole = gradients(ours, images, words, weights)
    small_chunks(monkeypatch)
    torch.testing.assert_close(gradients(ours, images, words, weights), whole)


def test_dropout_acts_in_training_alone():
    ours, (images, words) = model(), inputs()
    torch.testing.assert_close(ours(images, words), ours(images, words))
    ours.network.train()
    assert not torch.equal(ours(images, words), ours(images, words))


def test_weights_follow_from_the_generator():
    first, second = (model().member.network(model().params, 6, 3, torch.Generator().manual_seed(4)) for _ in range(2))
    torch.testing.assert_close(first.state_dict(), second.state_dict())
    bound = (6 / (6 + 5)) ** 0.5
    weight = first.sim_tranloc_w.weight
    assert weight.abs().max() <= bound
    assert weight.abs().max() > bound / 2
    assert first.sim_tranloc_w.bias.eq(0).all()
