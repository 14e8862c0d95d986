"""The scheme by its steps; whole runs are in test_noise_runs."""

import itertools
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import losses as naive
from tests.train.losses.contract import some_scores
from tests.train.some import CPU, adam, member, some_model, some_pairs, some_scheme
from vse_pipe.core.errors import PipelineError
from vse_pipe.project.registry import TEXT_ENCODERS
from vse_pipe.train import mixture, optimise
from vse_pipe.train.batch import Scored
from vse_pipe.train.schemes.l2rm import Partition
from vse_pipe.train.schemes.ncr import Division, predicted, refined, soft_margins, soft_triplets

SAMPLED = np.split(np.arange(40), 5)
VARIANTS = pytest.mark.parametrize("variant", ["paper", "code"])
CASE = {"pairs": st.integers(2, 23), "seed": st.integers(0, 50), "margin": st.floats(0.05, 2)}


def _apart(clean: int) -> np.ndarray:
    return np.where(np.arange(40) < clean, 0.1, 0.9) + 0.01 * np.sin(np.arange(40))


def _scheme(clean=(24, 30), epoch: int = 1, epochs: int = 2, losses=None, chunk: int = 0, **options):
    """At the start of an epoch whose networks take the first 24 and the first 30 of 40 pairs for clean."""
    pairs = some_pairs(40, each=2)
    model = some_model(pairs, text=member(TEXT_ENCODERS, "gru", word_dim=5, dropout=0.5)).train()
    scheme = some_scheme(pairs, "max", "ncr", model, {"epochs": epochs, "chunk": chunk}, **{"warm_up": 1, **options})
    given = dict(zip(scheme.models, losses or map(_apart, clean), strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheme, "pair_losses", lambda network, *rest: given[network])
        scheme.start(epoch)
    return scheme


def _scored(network, batch) -> Scored:
    with torch.no_grad():
        images, texts = network.eval().encode(batch, CPU)
    network.train()
    return Scored.from_scores(images @ texts.T)


def _steps(scheme, epoch: int = 1):
    for pairs in scheme.batches(epoch, SAMPLED):
        batch = scheme.setting.pairs.batch(pairs)
        scheme.prepare(batch)
        yield batch


def _per_pair(scheme, batch, labels, margin: float, shape: str, variant: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The scheme's loss of each pair, and that of a triplet with the margins of ``labels``."""
    images, texts = scheme.model.encode(batch, CPU)
    margins = soft_margins(labels, margin, shape)
    expected = soft_triplets(Scored.from_scores(images @ texts.T), margins, variant)
    return scheme.terms(images, texts, batch).per_pair, expected


def test_the_networks_are_alike_but_not_the_same_and_each_is_taught_by_the_other():
    first, second = _scheme().models
    assert [weight.shape for weight in first.parameters()] == [weight.shape for weight in second.parameters()]
    assert not torch.equal(first.img.fc.weight, second.img.fc.weight)
    again = _scheme().models[1]
    assert torch.equal(again.img.fc.weight, second.img.fc.weight)
    scheme = _scheme()
    assert [int(teacher.clean.sum()) for teacher in scheme.teachers] == [30, 24]
    seen = [(scheme.models.index(scheme.model), batch.pairs) for batch in _steps(scheme)]
    assert [place for place, _ in seen] == [0] * 8 + [1] * 6
    clean = [pairs for _, pairs in seen][::2]
    assert sorted(np.concatenate(clean[:4]).tolist()) == list(range(30))
    assert sorted(np.concatenate(clean[4:]).tolist()) == list(range(24))


@pytest.mark.parametrize(
    ("epoch", "options", "steps"),
    [
        *((epoch, {}, 14 if epoch > 2 else 7) for epoch in range(1, 6)),
        *((epoch, {"noisy_from": share}, steps) for share, steps in ((0.0, 14), (1.0, 7)) for epoch in (1, 5)),
    ],
)
def test_noisy_pairs_come_in_the_second_half_of_the_epochs_after_the_warm_up_or_as_is_asked(epoch, options, steps):
    assert len(_scheme(epoch=epoch, epochs=6, **options).batches(epoch, SAMPLED)) == steps


def test_the_warm_up_is_the_mean_of_all_violations_of_both_networks():
    scheme = _scheme(epoch=0, margin=0.3)
    batches = list(_steps(scheme, 0))
    assert [batch.pairs.tolist() for batch in batches[:5]] == [pairs.tolist() for pairs in SAMPLED]
    assert sorted(batch.pairs[0] for batch in batches[5:]) == [0, 8, 16, 24, 32]
    assert scheme.model is scheme.models[1]
    images, texts = scheme.model.encode(batches[-1], CPU)
    expected = sum(naive.hinge((images @ texts.T).tolist(), 0.3, False)) / 8
    torch.testing.assert_close(scheme.terms(images, texts, batches[-1]).total().item(), expected)


@VARIANTS
def test_labels_of_clean_pairs_are_refined_by_the_network_itself(variant):
    scheme, probability = _scheme(variant=variant, soft_margin="linear", threshold=0.0), np.linspace(0.2, 1, 40)
    scheme.teachers[0] = Division(probability, scheme.teachers[0].clean)
    batch = next(_steps(scheme))
    clean = torch.from_numpy(probability[batch.pairs]).float()
    labels = refined(clean, predicted(_scored(scheme.models[0], batch), 0.2), variant)
    torch.testing.assert_close(*_per_pair(scheme, batch, labels, 0.2, "linear", variant))
    assert all(network.training for network in scheme.models)


def test_labels_of_noisy_pairs_are_the_mean_of_both_predictions():
    scheme = _scheme(margin=0.4)
    _, batch = itertools.islice(_steps(scheme), 2)
    assert (batch.pairs >= 30).all()
    labels = sum(predicted(_scored(network, batch), 0.4) for network in scheme.models) / 2
    torch.testing.assert_close(*_per_pair(scheme, batch, labels, 0.4, "exponential", "paper"))


@pytest.mark.parametrize("chunk", [0, 3])
def test_a_step_moves_the_network_it_is_for_and_no_other(chunk):
    scheme = _scheme(chunk=chunk)
    own = adam(scheme.models[0], 1e-2)
    for pairs in scheme.batches(1, SAMPLED):
        before = [network.img.fc.weight.detach().clone() for network in scheme.models]
        optimise.step(scheme, own, scheme.setting.pairs.batch(pairs))
        for weight, network in zip(before, scheme.models, strict=True):
            assert torch.equal(weight, network.img.fc.weight) is (scheme.model is not network)


def test_few_clean_pairs_make_one_more_epoch_of_warm_up_and_equal_losses_train_on_everything(capsys):
    scheme = _scheme(losses=[np.where(np.arange(40) < 1, 0.1, 0.9), np.where(np.arange(40) < 24, 0.1, 0.9)])
    assert scheme.teachers[1] is None
    assert "too few pairs for clean" in capsys.readouterr().err
    plan = [(scheme.models.index(scheme.model), len(batch.pairs)) for batch in _steps(scheme)]
    assert plan[-5:] == [(1, 8)] * 5
    assert len(plan) == 11
    scheme = _scheme(losses=[np.full(40, 0.4)] * 2)
    assert "all losses are equal" in capsys.readouterr().err
    assert [len(batch.pairs) for batch in _steps(scheme)] == [8] * 10


# Divisions.
def _divided(clean: int = 14, size: int = 4, noisy: bool = True, seed: int = 0) -> list[tuple[np.ndarray, bool]]:
    """Batches of 20 pairs, of which the first are clean, and whether they are of these."""
    chosen = np.arange(20) < clean
    return Division(chosen.astype(float), chosen).steps(size, noisy, np.random.default_rng(seed))


def test_pairs_are_clean_above_the_threshold_of_their_probability_and_equal_losses_divide_nothing():
    losses = np.concatenate([0.1 + 0.01 * np.sin(np.arange(30)), 0.9 + 0.02 * np.cos(np.arange(10))])
    found = Division.fit(losses, 0.5)
    assert found.clean.tolist() == [True] * 30 + [False] * 10
    np.testing.assert_array_equal(found.probability, mixture.fit_gaussian(losses).posterior)
    assert found.doubt is None
    found = Division.fit(np.full(40, 0.2), 0.5)
    assert found.clean.all()
    assert found.trains
    assert "equal" in found.doubt


@pytest.mark.parametrize(("pairs", "noisy"), [(60, 1), (250, 3)])
def test_where_all_are_above_it_one_in_a_hundred_is_taken_for_noisy(pairs, noisy):
    found = Division.fit(np.linspace(0, 1, pairs) ** 2, 0.0)
    assert int((~found.clean).sum()) == noisy
    assert found.probability[~found.clean].max() <= found.probability[found.clean].min()


@pytest.mark.parametrize("fit", [Division.fit, partial(Partition.fit, clean="lower_mean")], ids=["ncr", "l2rm"])
def test_losses_that_are_no_numbers_are_refused(fit):
    with pytest.raises(PipelineError, match=r"not finite; lower train\.lr"):
        fit(np.array([0.1, np.nan] * 10), threshold=0.5)


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


@pytest.mark.parametrize(
    ("clean", "kinds", "trains"),
    [(20, [True] * 5, True), (19, [True] * 5, True), (2, [True, False], True), (1, [], False), (0, [], False)],
)
def test_few_pairs_of_either_kind(clean, kinds, trains):
    assert Division(np.zeros(20), np.arange(20) < clean).trains is trains
    assert [kind for _, kind in _divided(clean)] == kinds


def test_a_pair_that_would_be_alone_is_left_out_and_a_subset_smaller_than_a_batch_is_one():
    assert [len(pairs) for pairs, kind in _divided(9) if kind] == [4, 4]
    assert [len(pairs) for pairs, _ in _divided(size=1000)] == [14, 6]


# Labels and margins.


def _equal(ours: torch.Tensor, theirs: list[float]) -> None:
    torch.testing.assert_close(ours, torch.tensor(theirs, dtype=ours.dtype))


@settings(deadline=None, max_examples=20)
@given(**CASE)
def test_predictions_equal_plain_loops(pairs, seed, margin):
    scores = some_scores(pairs, seed)
    _equal(predicted(Scored.from_scores(scores), margin), naive.predicted(scores.tolist(), margin))


@pytest.mark.parametrize(("scores", "fit"), [(torch.ones(5, 5) - 2 * torch.eye(5), 0.0), (torch.eye(5), 1.0)])
def test_pairs_that_beat_all_negatives_fit_wholly_and_where_nothing_fits_nothing_is_predicted(scores, fit):
    assert predicted(Scored.from_scores(scores), 0.2).tolist() == [fit] * 5


@VARIANTS
def test_refined_labels_equal_plain_loops(variant):
    clean, prediction = torch.tensor([0.9, 0.5, 1.0, 0.6]), torch.tensor([0.1, 0.7, 0.3, 1.0])
    expected = naive.refined(clean.tolist(), prediction.tolist(), variant == "code")
    _equal(refined(clean, prediction, variant), expected)


@pytest.mark.parametrize("shape", ["exponential", "linear", "sin"])
def test_margins_equal_plain_loops_and_end_at_0_and_the_margin(shape):
    labels = torch.tensor([0.0, 0.2, 0.5, 0.9, 1.0], dtype=torch.float64)
    ours = soft_margins(labels, 0.3, shape)
    _equal(ours, [naive.soft_margin(label, 0.3, shape) for label in labels.tolist()])
    _equal(ours[[0, -1]], [0.0, 0.3])
    assert (ours.diff() > 0).all()


@VARIANTS
@settings(deadline=None, max_examples=20)
@given(**CASE)
def test_soft_triplets_equal_plain_loops(variant, pairs, seed, margin):
    scores = some_scores(pairs, seed)
    margins = margin * torch.rand(pairs, dtype=scores.dtype, generator=torch.Generator().manual_seed(seed))
    expected = naive.soft_triplets(scores.tolist(), margins.tolist(), variant == "code")
    _equal(soft_triplets(Scored.from_scores(scores), margins, variant), expected)
