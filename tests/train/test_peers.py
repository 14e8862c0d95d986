"""What schemes of two networks share, on ``ncr`` and ``bicro``."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import losses as naive
from tests.train.divided import SAMPLED, divided, steps
from tests.train.losses.contract import some_scores
from tests.train.some import adam
from vse_pipe.train import optimise
from vse_pipe.train.mixture import Division
from vse_pipe.train.peers import one_pass, soft_margins, soft_triplets
from vse_pipe.train.scored import Scored

BOTH = pytest.mark.parametrize("name", ["ncr", "bicro"])


@BOTH
def test_the_networks_are_alike_but_not_the_same_and_each_is_taught_by_the_other(name):
    first, second = divided(name).models
    assert [weight.shape for weight in first.parameters()] == [weight.shape for weight in second.parameters()]
    assert not torch.equal(first.img.fc.weight, second.img.fc.weight)
    again = divided(name).models[1]
    assert torch.equal(again.img.fc.weight, second.img.fc.weight)
    scheme = divided(name)
    assert [int(teacher.clean.sum()) for teacher in scheme.teachers] == [30, 24]
    seen = [(scheme.models.index(scheme.model), batch.pairs) for batch in steps(scheme)]
    assert [place for place, _ in seen] == [0] * 8 + [1] * 6
    clean = [pairs for _, pairs in seen][::2]
    assert sorted(np.concatenate(clean[:4]).tolist()) == list(range(30))
    assert sorted(np.concatenate(clean[4:]).tolist()) == list(range(24))


@pytest.mark.parametrize(("epoch", "steps"), [(2, 7), (3, 14)])
def test_noisy_pairs_come_in_the_second_half_of_the_epochs_after_the_warm_up(epoch, steps):
    assert len(divided("ncr", epoch=epoch, epochs=6).batches(epoch, SAMPLED)) == steps


@BOTH
@pytest.mark.parametrize("chunk", [0, 3])
def test_a_step_moves_the_network_it_is_for_and_no_other(name, chunk):
    scheme = divided(name, chunk=chunk)
    own = adam(scheme.models[0], 1e-2)
    for number, pairs in enumerate(scheme.batches(1, SAMPLED)):
        scheme.step = number
        before = [network.img.fc.weight.detach().clone() for network in scheme.models]
        optimise.step(scheme, own, scheme.setting.pairs.batch(pairs))
        for weight, network in zip(before, scheme.models, strict=True):
            assert torch.equal(weight, network.img.fc.weight) is (scheme.model is not network)


@BOTH
def test_few_clean_pairs_make_one_more_epoch_of_warm_up_and_equal_losses_train_on_everything(name, capsys):
    scheme = divided(name, losses=[np.where(np.arange(40) < 1, 0.1, 0.9), np.where(np.arange(40) < 24, 0.1, 0.9)])
    assert scheme.teachers[1] is None
    assert "too few pairs for clean" in capsys.readouterr().err
    plan = [(scheme.models.index(scheme.model), len(batch.pairs)) for batch in steps(scheme)]
    assert plan[-5:] == [(1, 8)] * 5
    assert len(plan) == 11
    scheme = divided(name, losses=[np.full(40, 0.4)] * 2)
    assert "all losses are equal" in capsys.readouterr().err
    assert [len(batch.pairs) for batch in steps(scheme)] == [8] * 10


# Divisions.
def _divided(clean: int = 14, size: int = 4, noisy: bool = True, seed: int = 0) -> list[tuple[np.ndarray, bool]]:
    """Batches of 20 pairs, of which the first are clean, and whether they are of these."""
    chosen = np.arange(20) < clean
    steps = one_pass(Division(chosen.astype(float), chosen), size, noisy, np.random.default_rng(seed))
    return [(pairs, part == "labelled") for pairs, part in steps]


def test_a_pass_over_the_clean_pairs_takes_the_noisy_ones_as_often_as_needed():
    found = _divided()
    assert [kind for _, kind in found] == [True, False] * 4
    labelled, unlabelled = ([pairs for pairs, kind in found if kind is wanted] for wanted in (True, False))
    assert sorted(np.concatenate(labelled).tolist()) == list(range(14))
    assert [len(pairs) for pairs in unlabelled] == [4, 2, 4, 2]
    assert sorted(np.concatenate(unlabelled[:2]).tolist()) == list(range(14, 20))
    assert [kind for _, kind in _divided(noisy=False)] == [True] * 4, "they can be left out"
    one, again, other = (np.concatenate([pairs for pairs, _ in _divided(seed=seed)]).tolist() for seed in (0, 0, 1))
    assert one == again != other, "the order follows from the generator"


def test_margins_equal_plain_loops_and_end_at_0_and_the_margin():
    labels = torch.tensor([0.0, 0.2, 0.5, 0.9, 1.0], dtype=torch.float64)
    ours = soft_margins(labels, 0.3)
    expected = [naive.soft_margin(label, 0.3) for label in labels.tolist()]
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=ours.dtype))
    assert ours[[0, -1]].tolist() == pytest.approx([0.0, 0.3])
    assert (ours.diff() > 0).all()


@pytest.mark.parametrize("variant", ["paper", "code"])
@settings(deadline=None, max_examples=20)
@given(pairs=st.integers(2, 23), seed=st.integers(0, 50), margin=st.floats(0.05, 2))
def test_soft_triplets_equal_plain_loops(variant, pairs, seed, margin):
    scores = some_scores(pairs, seed)
    margins = margin * torch.rand(pairs, dtype=scores.dtype, generator=torch.Generator().manual_seed(seed))
    expected = naive.soft_triplets(scores.tolist(), margins.tolist(), variant == "code")
    ours = soft_triplets(Scored.from_scores(scores), margins, variant == "code")
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=ours.dtype))
