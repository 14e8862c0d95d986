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
    name = "saf"


def model(**options) -> Model:
    return Model("saf", **{"sim_dim": 5, **options})


def expected(ours: Model, images, words, training: bool):
    return naive.saf(as_lists(ours), images.tolist(), captions_of(words), 9.0, training)


def test_equals_plain_loops():
    ours, (images, words) = model(), inputs()
    scores, mean, variance = expected(ours, images, words, training=False)
    torch.testing.assert_close(ours(images, words), torch.tensor(scores, dtype=torch.float64))
    assert ours.network.SAF_module.bn.running_mean.item() == mean
    assert ours.network.SAF_module.bn.running_var.item() == variance


@pytest.mark.parametrize("chunked", [False, True])
def test_training_has_the_statistics_of_a_loop_over_captions(chunked, monkeypatch):
    """Scores from each caption's own statistics, running ones after one update a caption in the order of the batch."""
    ours, (images, words) = model(dropout=0.0), inputs()
    if chunked:
        small_chunks(monkeypatch)
    ours.network.train()
    # The image side stays under running statistics: it is tested in sgr, and the loops have no training of it.
    ours.network.v_global_w.eval()
    scores, mean, variance = expected(ours, images, words, training=True)
    torch.testing.assert_close(ours(images, words), torch.tensor(scores, dtype=torch.float64))
    bn = ours.network.SAF_module.bn
    assert bn.running_mean.item() == pytest.approx(mean, abs=1e-12)
    assert bn.running_var.item() == pytest.approx(variance, abs=1e-12)
    assert bn.num_batches_tracked.item() == len(words)


def test_training_gives_the_same_in_chunks(monkeypatch):
    """Also where chunks are computed twice: the running statistics move once."""
    ours, (images, words) = model(dropout=0.0), inputs()
    ours.network.train()
    start = {name: tensor.clone() for name, tensor in ours.network.state_dict().items()}
    weights = torch.randn(SHAPE[0], len(words), dtype=torch.float64)
    whole = gradients(ours, images, words, weights)
    after = {name: tensor.clone() for name, tensor in ours.network.state_dict().items()}
    ours.network.load_state_dict(start)
    small_chunks(monkeypatch)
    torch.testing.assert_close(gradients(ours, images, words, weights), whole)
    torch.testing.assert_close(dict(ours.network.state_dict()), after)
