"""SUM and MAX against loops, and the curriculum of all losses with a margin."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.naive import losses as naive
from tests.train.losses.contract import OWNERS, check_contract, check_masked_cells, some_batch, some_scores
from tests.train.some import adam, some_pairs, some_scheme
from vse_pipe.project.registry import LOSSES
from vse_pipe.train import loop
from vse_pipe.train.batch import LossTerms, Scored
from vse_pipe.train.optimise import Averages

BOTH = pytest.mark.parametrize("name", ["sum", "max"])
ENDS = {"max": {}, "sum": {"hardest": 2}, "hal_emnlp": {"negatives": "max"}, "structure": {"top": 2}}


def _loss(name: str, batch: Scored, **options) -> LossTerms:
    member = LOSSES.load(name)
    return member.loss(batch, member.Params(**options))


def _tensor(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@BOTH
def test_contract(name):
    check_contract(LOSSES.load(name))
    check_masked_cells(LOSSES.load(name))


@BOTH
@settings(deadline=None)
@given(
    pairs=st.integers(2, 9),
    seed=st.integers(0, 50),
    margin=st.floats(0, 1),
    owners=st.lists(st.integers(0, 3), min_size=9, max_size=9),
    mask=st.booleans(),
)
def test_equals_plain_loops(name, pairs, seed, margin, owners, mask):
    batch = some_batch(pairs, seed, torch.tensor(owners[:pairs]), mask)
    expected = naive.hinge(batch.scores.tolist(), margin, hardest=name == "max", same=batch.same.tolist())
    torch.testing.assert_close(_loss(name, batch, margin=margin).per_pair, _tensor(expected))


def test_satisfied_margins_cost_nothing():
    assert _loss("sum", Scored.from_scores(torch.eye(5)), margin=0.2).total().item() == 0.0


def test_equal_similarities_are_the_plateau_of_max():
    maximum, params = LOSSES.load("max"), LOSSES.options("max")(margin=0.2)
    total = maximum.loss(Scored.from_scores(torch.zeros(8, 8)), params).total().item()
    assert total == pytest.approx(2 * 8 * 0.2)
    assert "plateau of 3.2" in maximum.stuck(total, 8, params)
    assert maximum.stuck(0.9 * total, 8, params) is None


def test_max_never_exceeds_the_sum_of_violations():
    batch = Scored.from_scores(some_scores(9, 3))
    assert (_loss("max", batch).per_pair <= _loss("sum", batch).per_pair).all()


def test_gradient_goes_to_one_hard_negative_of_each_kind():
    scores = torch.tensor([[0.5, 0.49, 0.48], [0.1, 0.5, 0.2], [0.1, 0.2, 0.5]], requires_grad=True)
    _loss("max", Scored.from_scores(scores), margin=0.05).total().backward()
    assert scores.grad[0].tolist() == [-1.0, 2.0, 1.0]


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize(("passed", "count"), [(0.0, 6), (0.5, 5), (1.0, 4), (1.5, 2), (2.0, 1), (7.0, 1)])
def test_max_is_the_mean_of_fewer_and_fewer_violations(passed, count, mask):
    batch = replace(some_batch(owners=OWNERS, mask=mask), passed=passed)
    expected = naive.hinge_of_hardest(batch.scores.tolist(), 0.5, count, batch.same.tolist())
    torch.testing.assert_close(_loss("max", batch, margin=0.5, curriculum=2.0).per_pair, _tensor(expected) / count)


@pytest.mark.parametrize(("passed", "count"), [(0.0, 6), (1.0, 4), (2.0, 2), (7.0, 2)])
def test_sum_is_the_sum_of_fewer_and_fewer_violations(passed, count):
    batch = replace(some_batch(), passed=passed)
    expected = naive.hinge_of_hardest(batch.scores.tolist(), 0.5, count)
    loss = _loss("sum", batch, margin=0.5, hardest=2, curriculum=2.0)
    torch.testing.assert_close(loss.per_pair, _tensor(expected))


@pytest.mark.parametrize("name", ENDS)
def test_a_curriculum_begins_with_all_negatives_and_ends_with_the_loss(name):
    check_contract(LOSSES.load(name), LOSSES.options(name)(**ENDS[name], curriculum=2.0))
    batch, options = some_batch(), {"margin": 0.9, **ENDS[name]}
    first = _loss(name, batch, **options, curriculum=3.0).per_pair
    every = {"max": {}, "sum": {"hardest": None}, "hal_emnlp": {"negatives": "sum"}, "structure": {"top": 6}}[name]
    summed = _loss("sum" if name == "max" else name, batch, **{**options, **every}).per_pair
    torch.testing.assert_close(first, summed / 6 if name in ("max", "hal_emnlp") else summed)
    last = _loss(name, replace(batch, passed=3.0), **options, curriculum=3.0).per_pair
    assert torch.equal(last, _loss(name, batch, **options).per_pair)
    assert not torch.equal(first, last)


@pytest.mark.parametrize("passed", [0.0, 0.7, 1.4])
@pytest.mark.parametrize("name", ["max", "sum", "hal_emnlp"])
def test_gradient_of_a_curriculum(name, passed):
    options = {**ENDS[name], **({"gradient": "full"} if name == "hal_emnlp" else {})}

    def total(scores):
        return _loss(name, replace(Scored.from_scores(scores), passed=passed), curriculum=2.0, **options).total()

    assert torch.autograd.gradcheck(total, (some_batch().scores.requires_grad_(),))


@pytest.mark.parametrize(("name", "problem"), [("sum", "needs hardest"), ("hal_emnlp", "needs negatives: max")])
def test_a_curriculum_of_a_sum_of_all_negatives_is_refused(name, problem):
    with pytest.raises(ValidationError, match=problem):
        LOSSES.options(name)(curriculum=1.0)


def test_a_batch_of_two_has_one_negative_from_the_start():
    batch = some_batch(2)
    assert torch.equal(_loss("max", batch, curriculum=2.0).per_pair, _loss("max", batch).per_pair)


def test_every_step_has_the_progress_of_training(monkeypatch):
    scheme = some_scheme(some_pairs(40, each=2), "max")
    optimizer, passed = adam(scheme.model, 1e-3), []

    def step(scheme, optimizer, batch):
        images, texts = scheme.model.encode(batch, torch.device("cpu"))
        passed.append(scheme.scored(images, texts, batch).passed)
        return 0.0, 1.0

    monkeypatch.setattr(loop, "step", step)
    for epoch in range(2):
        averages = Averages(scheme.models, None)
        loop._epoch(scheme, optimizer, averages, lambda epoch: np.split(np.arange(40), 5), epoch, "run")
    assert passed == [0, 0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.6, 1.8]
