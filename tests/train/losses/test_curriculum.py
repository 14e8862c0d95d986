"""What the losses of margins share: fewer and harder negatives as training goes on."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from tests.naive import losses as naive
from tests.train.losses.contract import OWNERS, check_contract, some_batch
from tests.train.some import adam, some_pairs, some_scheme
from vse_pipe.project.registry import LOSSES
from vse_pipe.train import loop
from vse_pipe.train.batch import Scored
from vse_pipe.train.optimise import Averages

ENDS = {"max": {}, "sum": {"hardest": 2}, "hal_emnlp": {"negatives": "max"}, "structure": {"top": 2}}


def _loss(name, batch, **options):
    member = LOSSES.load(name)
    return member.loss(batch, member.Params(**ENDS[name], **options))


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize(("passed", "count"), [(0.0, 6), (0.5, 5), (1.0, 4), (1.5, 2), (2.0, 1), (7.0, 1)])
def test_max_is_the_mean_of_ever_fewer_violations(passed, count, mask):
    batch = replace(some_batch(owners=OWNERS, mask=mask), passed=passed)
    expected = naive.hinge_of_hardest(batch.scores.tolist(), 0.5, count, batch.same.tolist())
    ours = _loss("max", batch, margin=0.5, curriculum=2.0).per_pair
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64) / count)


@pytest.mark.parametrize(("passed", "count"), [(0.0, 6), (1.0, 4), (2.0, 2), (7.0, 2)])
def test_sum_is_the_sum_of_ever_fewer_violations(passed, count):
    batch = replace(some_batch(), passed=passed)
    expected = naive.hinge_of_hardest(batch.scores.tolist(), 0.5, count)
    ours = _loss("sum", batch, margin=0.5, curriculum=2.0).per_pair
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("name", ENDS)
def test_it_begins_with_all_negatives_and_ends_with_the_loss_itself(name):
    batch, options = some_batch(), {"margin": 0.9}
    begun = _loss(name, batch, **options, curriculum=3.0).per_pair
    every = {"max": {"hardest": 6}, "sum": {}, "hal_emnlp": {"negatives": "sum"}, "structure": {"top": 6}}[name]
    member = LOSSES.load("sum" if name == "max" else name)
    summed = member.loss(batch, member.Params(**options, **every)).per_pair
    torch.testing.assert_close(begun, summed / 6 if name in ("max", "hal_emnlp") else summed)
    ended = _loss(name, replace(batch, passed=3.0), **options, curriculum=3.0).per_pair
    assert torch.equal(ended, _loss(name, batch, **options).per_pair)
    assert not torch.equal(begun, ended)


@pytest.mark.parametrize("name", ENDS)
def test_contract(name):
    member = LOSSES.load(name)
    check_contract(member, member.Params(**ENDS[name], curriculum=2.0))


@pytest.mark.parametrize("passed", [0.0, 0.7, 1.4])
@pytest.mark.parametrize("name", ["max", "sum", "hal_emnlp"])
def test_gradient(name, passed):
    scores = some_batch().scores.requires_grad_()
    options = {"gradient": "full"} if name == "hal_emnlp" else {}

    def total(given):
        return _loss(name, replace(Scored.from_scores(given), passed=passed), curriculum=2.0, **options).total()

    assert torch.autograd.gradcheck(total, (scores,))


@pytest.mark.parametrize(("name", "said"), [("sum", "needs hardest"), ("hal_emnlp", "needs negatives: max")])
def test_a_sum_of_all_negatives_has_no_end_to_come_to(name, said):
    with pytest.raises(ValidationError, match=said):
        LOSSES.options(name)(curriculum=1.0)


def test_a_batch_of_two_has_one_negative_from_the_start():
    batch = some_batch(2)
    assert torch.equal(_loss("max", batch, curriculum=2.0).per_pair, _loss("max", batch).per_pair)


def test_every_step_knows_how_far_training_has_come(monkeypatch):
    scheme = some_scheme(some_pairs(40, each=2), "max")
    optimizer, seen = adam(scheme.model, 1e-3), []

    def step(given, optimizer, batch):
        images, texts = given.model.encode(batch, torch.device("cpu"))
        seen.append(given.scored(images, texts, batch).passed)
        return 0.0, 1.0

    monkeypatch.setattr(loop, "step", step)
    for epoch in range(2):
        loop._epoch(
            scheme, optimizer, Averages(scheme.models, None), lambda epoch: np.split(np.arange(40), 5), epoch, "run"
        )
    assert seen == [0, 0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.6, 1.8]
