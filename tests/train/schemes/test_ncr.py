"""The scheme by its steps; whole runs are in test_noise_runs."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import losses as naive
from tests.naive.losses import hinge
from tests.train.losses.contract import some_scores
from tests.train.some import adam, member, some_model, some_pairs, some_scheme
from vse_pipe.core.errors import PipelineError
from vse_pipe.project.registry import SCHEMES, TEXT_ENCODERS
from vse_pipe.train import mixture, optimise
from vse_pipe.train.batch import Scored
from vse_pipe.train.schemes.ncr import Division, predicted, refined, soft_margins, soft_triplets

CPU = torch.device("cpu")
SAMPLED = [np.arange(start, start + 8) for start in range(0, 40, 8)]


def _scheme(clean=(24, 30), epoch: int = 1, epochs: int = 2, losses=None, chunk: int = 0, **options):
    """At the start of an epoch whose networks take the first 24 and the first 30 of 40 pairs for clean."""
    pairs = some_pairs(40, each=2)
    text = member(TEXT_ENCODERS, "gru", word_dim=5, dropout=0.5)
    model = some_model(pairs, text=text).train()
    scheme = some_scheme(pairs, "max", "ncr", model, {"epochs": epochs, "chunk": chunk}, **{"warm_up": 1, **options})
    found = [np.where(np.arange(40) < count, 0.1, 0.9) + 0.01 * np.sin(np.arange(40)) for count in clean]
    given = dict(zip(scheme.models, losses or found, strict=True))
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


def test_the_networks_are_alike_but_not_the_same():
    first, second = _scheme().models
    assert [weight.shape for weight in first.parameters()] == [weight.shape for weight in second.parameters()]
    assert not torch.equal(first.img.fc.weight, second.img.fc.weight)
    again = _scheme().models[1]
    assert torch.equal(again.img.fc.weight, second.img.fc.weight)


def test_each_network_is_taught_by_the_other():
    scheme = _scheme()
    assert [int(teacher.clean.sum()) for teacher in scheme.teachers] == [30, 24]
    seen = [(scheme.models.index(scheme.model), batch.pairs) for batch in _steps(scheme)]
    assert [place for place, _ in seen] == [0] * 8 + [1] * 6
    clean = [pairs for _, pairs in seen][::2]
    assert sorted(np.concatenate(clean[:4]).tolist()) == list(range(30))
    assert sorted(np.concatenate(clean[4:]).tolist()) == list(range(24))


@pytest.mark.parametrize(("epoch", "noisy"), [(1, False), (2, False), (3, True), (4, True), (5, True)])
def test_noisy_pairs_come_in_the_second_half_of_the_epochs_after_the_warm_up(epoch, noisy):
    scheme = _scheme(epoch=epoch, epochs=6)
    sizes = [len(pairs) for pairs in scheme.batches(epoch, SAMPLED)]
    assert len(sizes) == (14 if noisy else 7)


@pytest.mark.parametrize(("share", "steps"), [(0.0, 14), (1.0, 7)])
def test_noisy_pairs_can_come_from_the_start_or_never(share, steps):
    for epoch in (1, 5):
        scheme = _scheme(epoch=epoch, epochs=6, noisy_from=share)
        assert len(scheme.batches(epoch, SAMPLED)) == steps


def test_the_warm_up_is_the_mean_of_all_violations_of_both_networks():
    scheme = _scheme(epoch=0, margin=0.3)
    batches = list(_steps(scheme, 0))
    assert [batch.pairs.tolist() for batch in batches[:5]] == [pairs.tolist() for pairs in SAMPLED]
    assert sorted(batch.pairs[0] for batch in batches[5:]) == [0, 8, 16, 24, 32]
    assert scheme.model is scheme.models[1]
    images, texts = scheme.model.encode(batches[-1], CPU)
    expected = [share / 8 for share in hinge((images @ texts.T).tolist(), 0.3, False)]
    torch.testing.assert_close(scheme.terms(images, texts, batches[-1]).total().item(), sum(expected))


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_labels_of_clean_pairs_are_refined_by_the_network_itself(variant):
    scheme = _scheme(variant=variant, soft_margin="linear", threshold=0.0)
    teacher = scheme.teachers[0]
    probability = np.linspace(0.2, 1, 40)
    scheme.teachers[0] = type(teacher)(probability, teacher.clean)
    batch = next(_steps(scheme))
    clean = torch.from_numpy(probability[batch.pairs]).float()
    labels = refined(clean, predicted(_scored(scheme.models[0], batch), 0.2), variant)
    images, texts = scheme.model.encode(batch, CPU)
    expected = soft_triplets(Scored.from_scores(images @ texts.T), soft_margins(labels, 0.2, "linear"), variant)
    torch.testing.assert_close(scheme.terms(images, texts, batch).per_pair, expected)
    assert all(network.training for network in scheme.models)


def test_labels_of_noisy_pairs_are_the_mean_of_both_predictions():
    scheme = _scheme(margin=0.4)
    steps = _steps(scheme)
    next(steps)
    batch = next(steps)
    assert (batch.pairs >= 30).all()
    labels = sum(predicted(_scored(network, batch), 0.4) for network in scheme.models) / 2
    images, texts = scheme.model.encode(batch, CPU)
    margins = soft_margins(labels, 0.4, "exponential")
    expected = soft_triplets(Scored.from_scores(images @ texts.T), margins, "paper")
    torch.testing.assert_close(scheme.terms(images, texts, batch).per_pair, expected)


@pytest.mark.parametrize("chunk", [0, 3])
def test_a_step_moves_the_network_it_is_for_and_no_other(chunk):
    scheme = _scheme(chunk=chunk)
    own = adam(scheme.models[0], 1e-2)
    for pairs in scheme.batches(1, SAMPLED):
        before = [network.img.fc.weight.detach().clone() for network in scheme.models]
        optimise.step(scheme, own, scheme.setting.pairs.batch(pairs))
        moved = [
            not torch.equal(weight, network.img.fc.weight)
            for weight, network in zip(before, scheme.models, strict=True)
        ]
        assert moved == [scheme.model is network for network in scheme.models]


def test_too_few_clean_pairs_make_one_more_epoch_of_warm_up(capsys):
    apart = np.full(40, 0.9)
    apart[0] = 0.1
    scheme = _scheme(losses=[apart, np.where(np.arange(40) < 24, 0.1, 0.9)])
    assert scheme.teachers[1] is None
    assert "too few pairs for clean" in capsys.readouterr().err
    plan = [(scheme.models.index(scheme.model), len(batch.pairs)) for batch in _steps(scheme)]
    assert plan[-5:] == [(1, 8)] * 5
    assert len(plan) == 11


def test_equal_losses_train_on_everything_and_say_so(capsys):
    scheme = _scheme(losses=[np.full(40, 0.4)] * 2)
    assert "all losses are equal" in capsys.readouterr().err
    assert [len(batch.pairs) for batch in _steps(scheme)] == [8] * 10


def test_a_warm_up_that_leaves_no_epoch_is_said(capsys):
    _scheme(epoch=0, epochs=1)
    assert "1 epochs of warm-up leave none" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [{"margin": 0}, {"threshold": 1.0}, {"soft_margin": "cubic"}])
def test_parameters_are_checked(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SCHEMES.options("ncr")(**wrong)


def _losses(low: int, high: int) -> np.ndarray:
    return np.concatenate([0.1 + 0.01 * np.sin(np.arange(low)), 0.9 + 0.02 * np.cos(np.arange(high))])


def _steps_division(clean: np.ndarray, size: int = 4, noisy: bool = True, seed: int = 0):
    return Division(clean.astype(float), clean).steps(size, noisy, np.random.default_rng(seed))


def test_pairs_are_clean_above_the_threshold_of_their_probability():
    losses = _losses(30, 10)
    found = Division.fit(losses, 0.5)
    assert found.clean.tolist() == [True] * 30 + [False] * 10
    np.testing.assert_array_equal(found.probability, mixture.fit_gaussian(losses).posterior)
    assert found.doubt is None


@pytest.mark.parametrize(("pairs", "noisy"), [(60, 1), (250, 3)])
def test_where_all_are_above_it_one_in_a_hundred_is_taken_for_noisy(pairs, noisy):
    found = Division.fit(np.linspace(0, 1, pairs) ** 2, 0.0)
    assert int((~found.clean).sum()) == noisy
    assert found.probability[~found.clean].max() <= found.probability[found.clean].min()


def test_equal_losses_divide_nothing():
    found = Division.fit(np.full(40, 0.2), 0.5)
    assert found.clean.all()
    assert found.trains
    assert "equal" in found.doubt


def test_losses_that_are_no_numbers_are_refused():
    with pytest.raises(PipelineError, match=r"not finite; lower train\.lr"):
        Division.fit(np.array([0.1, np.nan] * 9), 0.5)


def test_a_pass_over_the_clean_pairs_takes_the_noisy_ones_as_often_as_needed():
    clean = np.arange(20) < 14
    found = _steps_division(clean)
    assert [kind for _, kind in found] == [True, False] * 4
    labelled = [pairs for pairs, kind in found if kind]
    assert sorted(np.concatenate(labelled).tolist()) == list(range(14))
    unlabelled = [pairs for pairs, kind in found if not kind]
    assert [len(pairs) for pairs in unlabelled] == [4, 2, 4, 2]
    assert sorted(np.concatenate(unlabelled[:2]).tolist()) == list(range(14, 20))


def test_the_noisy_pairs_can_be_left_out():
    found = _steps_division(np.arange(20) < 14, noisy=False)
    assert [kind for _, kind in found] == [True] * 4


@pytest.mark.parametrize(
    ("clean", "kinds", "trains"),
    [(20, [True] * 5, True), (19, [True] * 5, True), (2, [True, False], True), (1, [], False), (0, [], False)],
)
def test_few_pairs_of_either_kind(clean, kinds, trains):
    chosen = np.arange(20) < clean
    assert Division(chosen.astype(float), chosen).trains is trains
    assert [kind for _, kind in _steps_division(chosen)] == kinds


def test_a_pair_that_would_be_alone_is_left_out():
    assert [len(pairs) for pairs, kind in _steps_division(np.arange(20) < 9) if kind] == [4, 4]


def test_subsets_smaller_than_a_batch_are_a_batch():
    assert [len(pairs) for pairs, _ in _steps_division(np.arange(20) < 14, size=1000)] == [14, 6]


def test_order_follows_from_the_generator():
    one, again, other = (
        np.concatenate([pairs for pairs, _ in _steps_division(np.arange(20) < 14, seed=seed)]).tolist()
        for seed in (0, 0, 1)
    )
    assert one == again != other


SHAPES = ["exponential", "linear", "sin"]
CASE = {"pairs": st.integers(2, 23), "seed": st.integers(0, 50), "margin": st.floats(0.05, 2)}


def _equal(ours: torch.Tensor, theirs: list[float]) -> None:
    torch.testing.assert_close(ours, torch.tensor(theirs, dtype=ours.dtype))


@settings(deadline=None, max_examples=20)
@given(**CASE)
def test_predictions_equal_plain_loops(pairs, seed, margin):
    scores = some_scores(pairs, seed)
    _equal(predicted(Scored.from_scores(scores), margin), naive.predicted(scores.tolist(), margin))


def test_a_batch_in_which_nothing_fits_has_predictions_of_zero():
    scores = torch.ones(5, 5) - 2 * torch.eye(5)
    assert predicted(Scored.from_scores(scores), 0.2).tolist() == [0.0] * 5


def test_pairs_that_beat_all_negatives_fit_wholly():
    assert predicted(Scored.from_scores(torch.eye(4)), 0.2).tolist() == [1.0] * 4


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_refined_labels_equal_plain_loops(variant):
    clean, prediction = torch.tensor([0.9, 0.5, 1.0, 0.6]), torch.tensor([0.1, 0.7, 0.3, 1.0])
    expected = naive.refined(clean.tolist(), prediction.tolist(), variant == "code")
    _equal(refined(clean, prediction, variant), expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_margins_equal_plain_loops_and_end_at_0_and_the_margin(shape):
    labels = torch.tensor([0.0, 0.2, 0.5, 0.9, 1.0], dtype=torch.float64)
    ours = soft_margins(labels, 0.3, shape)
    _equal(ours, [naive.soft_margin(label, 0.3, shape) for label in labels.tolist()])
    torch.testing.assert_close(ours[[0, -1]], torch.tensor([0.0, 0.3], dtype=torch.float64))
    assert (ours.diff() > 0).all()


@pytest.mark.parametrize("variant", ["paper", "code"])
@settings(deadline=None, max_examples=20)
@given(**CASE)
def test_soft_triplets_equal_plain_loops(variant, pairs, seed, margin):
    scores = some_scores(pairs, seed)
    margins = margin * torch.rand(pairs, dtype=scores.dtype, generator=torch.Generator().manual_seed(seed))
    expected = naive.soft_triplets(scores.tolist(), margins.tolist(), variant == "code")
    _equal(soft_triplets(Scored.from_scores(scores), margins, variant), expected)


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_with_equal_margins_they_are_the_hardest_triplets(variant):
    from vse_pipe.train.losses import max as triplet

    batch = Scored.from_scores(some_scores(6))
    expected = triplet.loss(batch, triplet.Params(margin=0.4)).per_pair
    margins = torch.full((6,), 0.4, dtype=expected.dtype)
    torch.testing.assert_close(soft_triplets(batch, margins, variant), expected)
