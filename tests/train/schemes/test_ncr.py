"""The scheme by its steps; whole runs of it are in test_ncr_runs."""

import numpy as np
import pytest
import torch

from tests.naive.losses import hinge
from tests.train.some import adam, member, some_model, some_pairs, some_scheme
from vse_pipe.project.registry import SCHEMES, TEXT_ENCODERS
from vse_pipe.train.engine import optimise
from vse_pipe.train.engine.loss.scored import Scored
from vse_pipe.train.schemes.ncr.soft import predicted, refined, soft_margins, soft_triplets

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
    return Scored.of(images @ texts.T)


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
    expected = soft_triplets(Scored.of(images @ texts.T), soft_margins(labels, 0.2, "linear"), variant)
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
    expected = soft_triplets(Scored.of(images @ texts.T), margins, "paper")
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
        SCHEMES.options("ncr").Params(**wrong)
