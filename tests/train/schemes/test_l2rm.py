"""The scheme by its steps; whole runs of it are in test_l2rm_runs."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from tests.train.fragments import FragmentModel
from tests.train.some import adam, some_pairs, some_scheme
from vse_pipe.core.errors import InputError
from vse_pipe.project.registry import LOSSES, SCHEMES
from vse_pipe.train.engine import optimise
from vse_pipe.train.engine.loss.scored import Scored
from vse_pipe.train.engine.schedule import set_rates
from vse_pipe.train.schemes.l2rm.partial import partial_plan
from vse_pipe.train.schemes.l2rm.partition import Partition
from vse_pipe.train.schemes.l2rm.rematch import rematch_loss

CPU = torch.device("cpu")


def _scheme(matched: int = 24, loss: str = "max", epoch: int = 1, train=None, **options):
    """In an epoch whose split takes the first ``matched`` of 40 pairs for matched."""
    pairs = some_pairs(40, each=2)
    scheme = some_scheme(pairs, loss, "l2rm", train={"epochs": 9, **(train or {})}, warm_up=1, **options)
    losses = np.where(np.arange(40) < matched, 0.1, 0.9) + 0.01 * np.sin(np.arange(40))
    scheme._losses = lambda epoch: losses
    scheme.start(epoch)
    return scheme


def _batch(scheme):
    chosen = scheme.batches(1, [np.arange(8)])[0]
    return scheme.setting.pairs.batch(chosen)


def test_an_epoch_trains_on_the_matched_and_rematches_the_others():
    scheme = _scheme()
    batches = scheme.batches(1, [])
    assert [len(chosen) for chosen in batches] == [16, 16, 16]
    assert all((chosen[:8] < 24).all() and (chosen[8:] >= 24).all() for chosen in batches)


@pytest.mark.parametrize("rematch", ["symmetric_kl", "kl", "js", "infonce"])
@pytest.mark.parametrize(("cost", "mask"), [("learned", True), ("cosine", False)])
def test_the_loss_is_the_run_s_own_on_the_matched_plus_the_rematching_loss(rematch, cost, mask):
    scheme = _scheme(rematch=rematch, cost=cost, mask=mask, mass=0.3, regularisation=0.05, temperature=0.2)
    batch = _batch(scheme)
    images, texts = scheme.setting.model.encode(batch, CPU)
    member = LOSSES.load("max")
    expected = member.loss(Scored.of(images[:8] @ texts[:8].T), member.Params()).total()
    scores = images[8:] @ texts[8:].T
    plan = partial_plan((1 - scores).relu(), 0.3, 0.05, mask)
    expected = expected + rematch_loss(scores, plan, 0.2, rematch)
    terms = scheme.terms(images, texts, batch)
    torch.testing.assert_close(terms.total(), expected)
    assert terms.parts["rematch"] > 0


@pytest.mark.parametrize("kind", ["infonce_rce", "infonce", "max"])
def test_the_warm_up_is_on_all_pairs_under_its_own_loss(kind):
    scheme = _scheme(epoch=0, warm_up_loss=kind, temperature=0.1, margin=0.3)
    sampled = [np.arange(8), np.arange(8, 16)]
    assert scheme.batches(0, sampled) is sampled
    batch = scheme.setting.pairs.batch(np.arange(8))
    scheme.prepare(batch)
    images, texts = scheme.setting.model.encode(batch, CPU)
    family = LOSSES.load(kind)
    params = family.Params(margin=0.3) if kind == "max" else family.Params(tau=0.1)
    expected = family.loss(Scored.of(images @ texts.T), params)
    torch.testing.assert_close(scheme.terms(images, texts, batch).total(), expected.total())
    assert scheme.record() is None


def test_nothing_mismatched_is_plain_training():
    scheme = _scheme(matched=40)
    sampled = [np.arange(8), np.arange(8, 16)]
    scheme.split = Partition(scheme.split.losses, scheme.split.mixture, np.ones(40, bool))
    assert [chosen.tolist() for chosen in scheme.batches(1, sampled)] == [s.tolist() for s in sampled]
    batch = scheme.setting.pairs.batch(np.arange(8))
    scheme.prepare(batch)
    images, texts = scheme.setting.model.encode(batch, CPU)
    member = LOSSES.load("max")
    expected = member.loss(Scored.of(images @ texts.T), member.Params()).total()
    torch.testing.assert_close(scheme.terms(images, texts, batch).total(), expected)


def test_all_forced_to_matched_is_the_loss_after_a_warm_up():
    """The run's sampler in both, so that the weights of both come out the same to the last bit."""
    pairs = some_pairs(40, each=2)
    scheme = some_scheme(pairs, "max", "l2rm", train={"epochs": 4}, warm_up=2, split="matched")
    model = copy.deepcopy(scheme.setting.model)
    optimizer, own = (adam(net, 1e-2) for net in (scheme.setting.model, model))
    sampled = [np.arange(start, start + 8) for start in range(0, 40, 8)]
    before = [weights.clone() for weights in model.parameters()]
    for epoch in range(4):
        kind = "infonce_rce" if epoch < 2 else "max"
        family = LOSSES.load(kind)
        scheme.start(epoch)
        for chosen in scheme.batches(epoch, sampled):
            optimise.step(scheme, optimizer, pairs.batch(chosen))
        for chosen in sampled:
            images, texts = model.encode(pairs.batch(chosen), CPU)
            loss = family.loss(Scored.of(model.score(images, texts)), family.Params()).total()
            own.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), scheme.setting.train.grad_clip)
            own.step()
    ours = zip(scheme.setting.model.parameters(), model.parameters(), before, strict=True)
    assert all(torch.equal(mine, theirs) and not torch.equal(mine, first) for mine, theirs, first in ours)
    assert scheme.record()["matched"] == 40


def test_the_split_can_be_the_truth():
    pairs = some_pairs(40, each=2)
    truth = np.arange(40) % 3 == 0
    scheme = some_scheme(replace(pairs, mismatched=truth), "max", "l2rm", train={"epochs": 9}, warm_up=1, split="truth")
    scheme.start(1)
    assert (scheme.split.clean == ~truth).all()
    assert scheme.record()["truth"]["precision"] == 1.0
    with pytest.raises(InputError, match="known that some are mismatched"):
        some_scheme(pairs, "max", "l2rm", train={"epochs": 9}, warm_up=1, split="truth")
    with pytest.raises(ValidationError, match="rematches all pairs"):
        _scheme(split="both", rematch="none")


def test_all_can_be_trained_on_and_rematched_too():
    scheme = _scheme(split="both", mask=False)
    batches = scheme.batches(1, [np.arange(8)])
    assert [len(chosen) for chosen in batches] == [16] * 5
    for part in (slice(0, 8), slice(8, None)):
        assert sorted(np.concatenate([chosen[part] for chosen in batches])) == list(range(40))
    terms = scheme.terms(*_encoded(scheme), _batch(scheme))
    member = LOSSES.load("max")
    images, texts = _encoded(scheme)
    matched = member.loss(Scored.of(images[:8] @ texts[:8].T), member.Params()).total()
    assert terms.parts["rematch"] > 0
    torch.testing.assert_close(terms.total(), matched + terms.parts["rematch"])


def test_the_mismatched_can_be_left_out():
    scheme = _scheme(rematch="none")
    batches = scheme.batches(1, [])
    assert [len(chosen) for chosen in batches] == [8] * 3
    assert sorted(np.concatenate(batches)) == list(range(24))
    assert "rematch" not in scheme.terms(*_encoded(scheme), _batch(scheme)).parts


def _encoded(scheme):
    return scheme.setting.model.encode(_batch(scheme), CPU)


def test_equal_losses_leave_every_pair_matched_and_are_said(capsys):
    scheme = _scheme()
    scheme._losses = lambda epoch: np.full(40, 0.3)
    scheme.start(2)
    assert scheme.split.clean.all()
    assert "warning: l2rm, epoch 3: all losses are equal" in capsys.readouterr().err


def test_everything_mismatched_is_one_more_epoch_of_warm_up(capsys, monkeypatch):
    found = Partition.of(_scheme()._losses(1), "lower_mean", 0.5)
    nothing = Partition(found.losses, found.mixture, np.zeros(40, bool))
    monkeypatch.setattr(Partition, "of", lambda *arguments: nothing)
    scheme = _scheme(matched=0)
    sampled = [np.arange(8)]
    assert scheme.batches(1, sampled) is sampled
    batch = scheme.setting.pairs.batch(np.arange(8))
    scheme.prepare(batch)
    images, texts = scheme.setting.model.encode(batch, CPU)
    member = LOSSES.load("infonce_rce")
    expected = member.loss(Scored.of(images @ texts.T), member.Params()).total()
    torch.testing.assert_close(scheme.terms(images, texts, batch).total(), expected)
    assert scheme.record()["matched"] == 0
    assert "too few matched pairs" in capsys.readouterr().err


@pytest.mark.parametrize("matched", [2, 5, 38, 39])
def test_subsets_smaller_than_a_batch_train(matched):
    scheme = _scheme(matched)
    scheme.split = Partition(scheme.split.losses, scheme.split.mixture, np.arange(40) < matched)
    optimizer = adam(scheme.setting.model, 1e-3)
    for chosen in scheme.batches(1, [np.arange(8), np.arange(32, 40)]):
        loss, _ = optimise.step(scheme, optimizer, scheme.setting.pairs.batch(chosen))
        assert np.isfinite(loss)


def test_a_step_with_chunks_is_a_step_without():
    after = []
    for chunk in (0, 5):
        scheme = _scheme(train={"chunk": chunk}, cost_lr=1e-2)
        optimizer = torch.optim.SGD(scheme.setting.model.parameters(), lr=0.1)
        optimise.step(scheme, optimizer, _batch(scheme))
        after.append({**scheme.setting.model.state_dict(), **scheme.state()})
    for name, weight in after[0].items():
        torch.testing.assert_close(after[1][name], weight, rtol=1e-4, atol=1e-6)


def test_every_draw_follows_from_seed_epoch_and_step():
    states = []
    for _ in range(2):
        scheme = _scheme(cost_lr=1e-2)
        for chosen in scheme.batches(1, []):
            scheme.prepare(scheme.setting.pairs.batch(chosen))
        states.append(scheme.state())
    assert all(torch.equal(states[0][name], tensor) for name, tensor in states[1].items())


def test_the_rate_decays_from_the_end_of_the_warm_up():
    scheme = _scheme(train={"lr": 0.1, "lr_update": 2})
    optimizer = torch.optim.SGD(scheme.setting.model.parameters(), lr=0.1)
    optimizer = optimise.optimizer_for(scheme.setting.model, scheme.setting.train)
    rates = [set_rates(optimizer, scheme.setting.train, scheme.moment(epoch)) for epoch in range(6)]
    assert rates == pytest.approx([0.1, 0.1, 0.1, 0.01, 0.01, 0.001])


def test_costs_and_masses_of_an_epoch_are_recorded():
    scheme = _scheme()
    batch = _batch(scheme)
    scheme.terms(*scheme.setting.model.encode(batch, CPU), batch)
    record = scheme.record()
    assert sum(record["cost"]["matched"]) == sum(record["cost"]["mismatched"]) == 8
    assert record["moved"] == pytest.approx(0.1, rel=0.4)
    assert record["matched"] == 24


def test_losses_of_the_split_are_those_of_the_model():
    scheme = some_scheme(some_pairs(40, each=2), "max", "l2rm", warm_up=0, sample_loss="hardest", margin=0.1)
    found = scheme._losses(0)
    again, other = scheme._losses(0), scheme._losses(1)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found, again)
    assert not np.array_equal(found, other)


def test_a_warm_up_without_an_end_is_said(capsys):
    some_scheme(some_pairs(), "max", "l2rm", train={"epochs": 3}, warm_up=3)
    assert "3 epochs of warm-up leave none of train.epochs 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong", [{"mass": 0.0}, {"mass": 1.5}, {"cost": "euclidean"}, {"rematch": "mse"}, {"threshold": 1.0}]
)
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SCHEMES.options("l2rm").Params(**wrong)


def test_fragments_are_split_and_rematched_in_chunks_and_without():
    after = []
    for chunk in (0, 5):
        pairs = some_pairs(40, each=2)
        model = FragmentModel(pairs.array.shape[1], pairs.texts.inputs)
        params = {"train": {"epochs": 9, "chunk": chunk}, "warm_up": 0, "cost_lr": 1e-2}
        scheme = some_scheme(pairs, "max", "l2rm", model=model, **params)
        assert np.isfinite(scheme._losses(0)).all()
        scheme._losses = lambda epoch: np.where(np.arange(40) < 24, 0.1, 0.9) + 0.01 * np.sin(np.arange(40))
        scheme.start(0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for chosen in scheme.batches(0, []):
            optimise.step(scheme, optimizer, pairs.batch(chosen))
        after.append({**model.state_dict(), **scheme.state()})
    for name, weight in after[0].items():
        torch.testing.assert_close(after[1][name], weight, rtol=1e-3, atol=1e-5)
