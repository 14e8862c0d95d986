"""Rates against torch's schedulers, values of all pairs against loops, and the plain scheme."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from tests.naive import losses as naive
from tests.naive.losses import hinge
from tests.train.losses.contract import OWNERS, some_batch, some_scores
from tests.train.some import adam, member, some_model, some_pairs, some_scheme
from vse_pipe.core.errors import InputError
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.project.registry import LOSSES, TEXT_ENCODERS
from vse_pipe.train.batch import LossTerms, Scored, sample_losses
from vse_pipe.train.heads import OwnRate
from vse_pipe.train.scheme import Moment, groups, set_rates, share, values_of_pairs


def _rates(params, steps, begins=0, decays_from=0):
    """Of every step of all epochs, as shares."""
    moments = [
        Moment(epoch, step, steps, decays_from=decays_from) for epoch in range(params.epochs) for step in range(steps)
    ]
    return [share(params, moment, begins) for moment in moments]


def test_without_warm_up_steps_are_exactly_tenths():
    params = TrainParams(epochs=40, lr=3e-4, lr_update=7)
    optimizer = adam(torch.nn.Linear(1, 1), 3e-4)
    for epoch in range(40):
        for at in (Moment(epoch), Moment(epoch, 2, 3)):
            assert set_rates(optimizer, params, at) == 3e-4 * 0.1 ** (epoch // 7)


@pytest.mark.parametrize(("warm_up", "final"), [(0, 0.0), (2, 0.0), (3, 0.1)])
def test_cosine_is_that_of_torch(warm_up, final):
    epochs, steps, lr = 8, 5, 0.3
    params = TrainParams(epochs=epochs, lr=lr, schedule="cosine", warm_up=warm_up, final=final)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    rising, falling = warm_up * steps, (epochs - warm_up) * steps
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, falling, eta_min=final * lr)
    schedule = fall
    if warm_up:
        rise = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / rising, 1.0, rising - 1)
        schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [rise, fall], [rising])
    wanted = []
    for _ in range(epochs * steps):
        wanted.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert lr * np.array(_rates(params, steps)) == pytest.approx(wanted, abs=1e-9)


def test_a_fraction_of_an_epoch_warms_up_by_steps():
    rates = _rates(TrainParams(epochs=2, warm_up=0.5), steps=8)
    assert rates == [0.25, 0.5, 0.75, 1.0] + [1.0] * 12


@pytest.mark.parametrize("schedule", ["steps", "cosine"])
def test_no_step_stands_still_and_none_is_above_the_rate(schedule):
    rates = _rates(TrainParams(epochs=5, warm_up=1.3, schedule=schedule, lr_update=2), steps=7)
    assert max(rates) == 1.0
    assert min(rates) > 0


def test_decay_counts_from_where_the_scheme_says():
    params = TrainParams(epochs=10, schedule="cosine", warm_up=1, final=0.2)
    found = _rates(params, steps=2, decays_from=4)
    assert found[:2] == [0.5, 1.0]
    for step, rate in enumerate(found[2:], 2):
        gone = max(step / 2 - 4, 0) / 6
        assert rate == pytest.approx(0.2 + 0.8 * (0.5 + 0.5 * math.cos(math.pi * gone)))


def test_layers_that_start_later_warm_up_and_fall_from_there():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    model[1].own_rate = OwnRate(1e-3, after=3)
    optimizer, params = adam(model, 1e-1), TrainParams(lr=1e-1, epochs=7, schedule="cosine", warm_up=1)
    own = []
    for epoch in range(7):
        set_rates(optimizer, params, Moment(epoch, 1, 2))
        own.append(optimizer.param_groups[1]["lr"])
    assert own[2:4] == pytest.approx([1e-3, 1e-3])
    assert own[4:] == pytest.approx([1e-3 * (0.5 + 0.5 * math.cos(math.pi * t / 6)) for t in (1, 3, 5)])
    assert share(params, Moment(3, 0, 2), 3) == 0.5


def test_a_new_network_warms_up_again():
    scheme = some_scheme(some_pairs(), "crcl", "crcl", train={"epochs": 9, "warm_up": 2.0}, warm_up=1, restarts=[3, 3])
    found = [share(scheme.setting.train, scheme.moment(epoch)) for epoch in range(9)]
    assert found == [0.5, 1.0, 1.0] * 3


def test_both_networks_of_ncr_have_the_whole_schedule():
    scheme = some_scheme(some_pairs(), "max", "ncr", train={"epochs": 2, "warm_up": 1.0, "lr": 1.0}, warm_up=2)
    own = adam(scheme.setting.model, 1.0)
    sampled = [np.arange(8), np.arange(8, 16)]
    work, found = scheme.batches(0, sampled), []
    for number, pairs in enumerate(work):
        scheme.set_rates(own, 0, number, len(work))
        scheme.prepare(scheme.setting.pairs.batch(pairs))
        found.append(scheme.optimizer(own).param_groups[0]["lr"])
    assert found == [0.5, 1.0, 0.5, 1.0]


CPU = torch.device("cpu")


@pytest.mark.parametrize(("pairs", "size"), [(24, 8), (25, 8), (26, 8), (7, 8), (8, 8), (9, 8), (2, 8)])
def test_every_pair_is_in_one_group_of_at_least_two(pairs, size):
    found = groups(pairs, size, seed=1, epoch=2)
    assert sorted(np.concatenate(found).tolist()) == list(range(pairs))
    assert all(2 <= len(group) <= size + 1 for group in found)


def test_groups_follow_from_seed_and_epoch():
    first, again, other = (np.concatenate(groups(40, 8, 1, epoch)).tolist() for epoch in (0, 0, 1))
    assert first == again
    assert first != other


@pytest.mark.parametrize("reduction", ["mean", "hardest"])
@pytest.mark.parametrize("masked", [False, True])
def test_losses_are_those_of_the_plain_loops(reduction, masked):
    pairs = some_pairs(24, each=3)
    model = some_model(pairs)
    work = groups(24, 8, 0, 0)
    judge = partial(sample_losses, margin=0.3, hardest=reduction == "hardest")
    found = values_of_pairs(model, pairs, work, CPU, judge, masked)
    for group in work:
        with torch.no_grad():
            images, texts = model.eval().encode(pairs.batch(group), CPU)
        owners = pairs.owners[group]
        same = (owners[:, None] == owners[None, :]) if masked else np.eye(len(group), dtype=bool)
        expected = hinge((images @ texts.T).tolist(), 0.3, reduction == "hardest", same.tolist())
        if reduction == "mean":
            expected = [share / len(group) for share in expected]
        np.testing.assert_allclose(found[group], expected, atol=1e-6)


def test_dropout_is_off_and_the_mode_comes_back():
    pairs = some_pairs()
    model = some_model(pairs, text=member(TEXT_ENCODERS, "gru", word_dim=5, dropout=0.9)).train()
    work = groups(24, 8, 0, 0)
    first, again = (values_of_pairs(model, pairs, work, CPU, sample_losses) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert model.training
    assert all(weight.grad is None for weight in model.parameters())


def test_pairs_left_out_are_not_a_number():
    pairs = some_pairs()
    found = values_of_pairs(some_model(pairs), pairs, [np.array([1, 5, 9])], CPU, sample_losses)
    assert np.flatnonzero(np.isfinite(found)).tolist() == [1, 5, 9]


def test_a_batch_of_one_pair_is_refused_and_the_mode_comes_back():
    pairs = some_pairs()
    model = some_model(pairs).train()
    with pytest.raises(InputError, match="at least 2 pairs"):
        values_of_pairs(model, pairs, [np.array([3])], CPU, sample_losses)
    assert model.training


@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (4,), (2, 2, 2)])
def test_scores_that_are_no_batch_of_pairs_are_refused(shape):
    with pytest.raises(InputError, match=r"square scores of at least 2 pairs, got shape"):
        Scored.from_scores(torch.ones(shape))


def test_without_owners_every_pair_has_an_image_of_its_own():
    batch = Scored.from_scores(torch.ones(3, 3), mask_same_image=True)
    assert torch.equal(batch.same, torch.eye(3, dtype=torch.bool))
    assert batch.owners.unique().numel() == 3


def test_captions_of_the_same_image_are_masked_only_on_request():
    owners = torch.tensor([7, 2, 7])
    assert torch.equal(Scored.from_scores(torch.ones(3, 3), owners).same, torch.eye(3, dtype=torch.bool))
    masked = Scored.from_scores(torch.ones(3, 3), owners, mask_same_image=True).same
    assert masked.tolist() == [[True, False, True], [False, True, False], [True, False, True]]


@pytest.mark.parametrize(("reduction", "expected"), [("sum", 6.0), ("mean", 2.0)])
def test_reduction(reduction, expected):
    assert LossTerms(torch.tensor([1.0, 2.0, 3.0]), reduction).total().item() == expected


@pytest.mark.parametrize("mask", [False, True])
def test_mean_counts_every_cell_of_the_batch(mask):
    batch = some_batch(owners=OWNERS, mask=mask)
    summed = naive.hinge(batch.scores.tolist(), 0.4, hardest=False, same=batch.same.tolist())
    expected = torch.tensor(summed, dtype=torch.float64) / 7
    torch.testing.assert_close(sample_losses(batch, 0.4), expected)


def test_hardest_is_the_share_in_the_loss_max():
    batch = Scored.from_scores(some_scores(9, 2))
    member = LOSSES.load("max")
    torch.testing.assert_close(sample_losses(batch, hardest=True), member.loss(batch, member.Params()).per_pair)
    assert (sample_losses(batch) <= sample_losses(batch, hardest=True)).all()


def test_a_mismatched_pair_stands_out():
    scores = torch.eye(6) * 0.8
    scores[2, 2] = 0.0
    assert sample_losses(Scored.from_scores(scores)).argmax() == 2


def test_the_loss_of_the_batch_and_nothing_else():
    pairs = some_pairs()
    scheme = some_scheme(pairs, "max")
    batch = pairs.batch(np.array([3, 8, 14, 21]))
    images, texts = scheme.setting.model.encode(batch, torch.device("cpu"))
    scheme.start(0)
    member = LOSSES.load("max")
    expected = member.loss(Scored.from_scores(images @ texts.T), member.Params())
    torch.testing.assert_close(scheme.terms(images, texts, batch).per_pair, expected.per_pair)


def test_captions_of_one_image_are_negatives_unless_masked():
    pairs = some_pairs(each=3)
    batch = pairs.batch(np.array([0, 1, 2, 6]))
    counted = []
    for masked in (False, True):
        scheme = some_scheme(pairs, train={"mask_same_image": masked})
        scored = scheme.scored(*scheme.setting.model.encode(batch, torch.device("cpu")), batch)
        counted.append(int(scored.same.sum()))
        assert scored.owners.tolist() == [10, 10, 10, 30]
    assert counted == [4, 10]
