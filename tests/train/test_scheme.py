"""Rates against torch's schedulers, values of all pairs against loops, and the plain scheme."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from torch.optim import lr_scheduler

from tests.naive import losses as naive
from tests.train.some import adam, member, some_model, some_pairs, some_scheme
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.project.registry import LOSSES, TEXT_ENCODERS
from vse_pipe.train.heads import OwnRate
from vse_pipe.train.scheme import Scheme, groups

CPU, MAX = torch.device("cpu"), LOSSES.load("max")


def _scheme(params, decays_from=0) -> Scheme:
    scheme = some_scheme(some_pairs(), train=params.model_dump())
    scheme.decays_from = decays_from
    return scheme


def _rates(params, steps, decays_from=0):
    """Of every step of all epochs, as shares."""
    scheme = _scheme(params, decays_from)
    return [scheme.share(epoch, step, steps) for epoch, step in product(range(params.epochs), range(steps))]


def test_steps_are_exactly_tenths_a_fraction_of_an_epoch_warms_up_and_decay_counts_from_where_it_is_said():
    params = TrainParams(epochs=40, lr=3e-4, lr_update=7)
    optimizer, scheme = adam(torch.nn.Linear(1, 1), 3e-4), _scheme(params)
    for epoch in range(40):
        for step in ((), (2, 3)):
            scheme.set_rates(optimizer, epoch, *step)
            assert optimizer.param_groups[0]["lr"] == 3e-4 * 0.1 ** (epoch // 7)
    assert _rates(TrainParams(epochs=2, warm_up=0.5), steps=8) == [0.25, 0.5, 0.75, 1.0] + [1.0] * 12
    found = _rates(TrainParams(epochs=10, schedule="cosine", warm_up=1, final=0.2), steps=2, decays_from=4)
    gone = [max(step / 2 - 4, 0) / 6 for step in range(2, 20)]
    falling = [0.2 + 0.8 * (0.5 + 0.5 * math.cos(math.pi * one)) for one in gone]
    assert found == pytest.approx([0.5, 1.0, *falling])


@pytest.mark.parametrize(("warm_up", "final"), [(0, 0.0), (2, 0.0), (3, 0.1)])
def test_cosine_is_that_of_torch(warm_up, final):
    epochs, steps, lr = 8, 5, 0.3
    params = TrainParams(epochs=epochs, lr=lr, schedule="cosine", warm_up=warm_up, final=final)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    rising, falling = warm_up * steps, (epochs - warm_up) * steps
    schedule = lr_scheduler.CosineAnnealingLR(optimizer, falling, eta_min=final * lr)
    if warm_up:
        rise = lr_scheduler.LinearLR(optimizer, 1 / rising, 1.0, rising - 1)
        schedule = lr_scheduler.SequentialLR(optimizer, [rise, schedule], [rising])
    wanted = []
    for _ in range(epochs * steps):
        wanted.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert lr * np.array(_rates(params, steps)) == pytest.approx(wanted, abs=1e-9)


def test_layers_that_start_later_warm_up_and_fall_from_there():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    model[1].own_rate = OwnRate(1e-3, after=3)
    optimizer, params = adam(model, 1e-1), TrainParams(lr=1e-1, epochs=7, schedule="cosine", warm_up=1)
    own, scheme = [], _scheme(params)
    for epoch in range(7):
        scheme.set_rates(optimizer, epoch, 1, 2)
        own.append(optimizer.param_groups[1]["lr"])
    assert own[2:4] == pytest.approx([1e-3, 1e-3])
    assert own[4:] == pytest.approx([1e-3 * (0.5 + 0.5 * math.cos(math.pi * t / 6)) for t in (1, 3, 5)])
    assert scheme.share(3, 0, 2, 3) == 0.5


def test_new_networks_have_the_whole_schedule():
    scheme = some_scheme(some_pairs(), "crcl", "crcl", train={"epochs": 9, "warm_up": 2.0}, warm_up=1, restarts=[3, 3])
    found = [scheme.share(epoch) for epoch in range(9)]
    assert found == [0.5, 1.0, 1.0] * 3
    scheme = some_scheme(some_pairs(), "max", "ncr", train={"epochs": 2, "warm_up": 1.0, "lr": 1.0}, warm_up=2)
    own, found = adam(scheme.setting.model, 1.0), []
    work = scheme.batches(0, [np.arange(8), np.arange(8, 16)])
    for number, pairs in enumerate(work):
        scheme.step = number
        scheme.set_rates(own, 0, number, len(work))
        scheme.prepare(scheme.setting.pairs.batch(pairs))
        found.append(scheme.optimizer(own).param_groups[0]["lr"])
    assert found == [0.5, 1.0, 0.5, 1.0]


@pytest.mark.parametrize("pairs", [24, 25, 26, 7, 8, 9, 2])
def test_every_pair_is_in_one_group_of_at_least_two_by_seed_and_epoch(pairs):
    found, again, other = (groups(pairs, 8, seed=1, epoch=epoch) for epoch in (2, 2, 5))
    assert sorted(np.concatenate(found).tolist()) == list(range(pairs))
    assert all(2 <= len(group) <= 8 + 1 for group in found)
    first, second, third = (np.concatenate(each).tolist() for each in (found, again, other))
    assert first == second
    assert (first != third) is (pairs > 2)


@pytest.mark.parametrize("reduction", ["mean", "hardest"])
@pytest.mark.parametrize("masked", [False, True])
def test_losses_of_all_pairs_are_those_of_the_plain_loops_without_dropout(reduction, masked):
    pairs = some_pairs(24, each=3)
    model = some_model(pairs, text=member(TEXT_ENCODERS, "gru", word_dim=5, dropout=0.9)).train()
    scheme = some_scheme(pairs, "max", "plain", model, {"mask_same_image": masked})
    losses = scheme.pair_losses(model, 0, 0.3, reduction == "hardest")
    assert model.training, "the mode comes back"
    for group in groups(24, 8, scheme.setting.run.seed, 0):
        with torch.no_grad():
            images, texts = model.eval().encode(pairs.batch(group), CPU)
        owners = pairs.owners[group]
        same = (owners[:, None] == owners[None, :]) if masked else np.eye(len(group), dtype=bool)
        expected = np.array(naive.hinge((images @ texts.T).tolist(), 0.3, reduction == "hardest", same.tolist()))
        np.testing.assert_allclose(losses[group], expected / (1 if reduction == "hardest" else len(group)), atol=1e-6)
