"""HAL of both papers, SUM and MAX against loops, and the curriculum of all losses with a margin."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.naive import losses as naive
from tests.train.losses.contract import DRAWN, OWNERS, check_contract, check_slope, some_batch, some_scores
from tests.train.some import adam, some_pairs, some_scheme
from vse_pipe.project.registry import LOSSES
from vse_pipe.train import optimise
from vse_pipe.train.losses.hal_emnlp import exponents
from vse_pipe.train.optimise import Averages
from vse_pipe.train.scored import LossTerms, Scored

hal, emnlp = LOSSES.load("hal"), LOSSES.load("hal_emnlp")
VARIANTS = pytest.mark.parametrize("variant", ["extended", "paper", "code"])
WEIGHTED = pytest.mark.parametrize("weighted", [False, True])
READINGS = pytest.mark.parametrize("reading", ["A", "B"])
NEGATIVES = pytest.mark.parametrize("negatives", ["sum", "max"])

# Wide enough that every negative violates it: each image and each text then has a gradient.
WIDE = 20.0
BOTH = pytest.mark.parametrize("name", ["sum", "max"])


def some_weights(pairs: int = 7, seed: int = 0) -> torch.Tensor:
    return torch.rand(pairs, pairs, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _hal(scores: torch.Tensor, weights: torch.Tensor | None = None, **options) -> LossTerms:
    return hal.loss(Scored.from_scores(scores, weights=weights), hal.Params(**options))


def _emnlp(scores: torch.Tensor, **options) -> LossTerms:
    return emnlp.loss(Scored.from_scores(scores), emnlp.Params(**options))


def _close(terms: LossTerms, expected: list[float]) -> None:
    torch.testing.assert_close(terms.per_pair, torch.tensor(expected, dtype=torch.float64))


@VARIANTS
def test_contract_and_slope(variant):
    check_contract(hal, hal.Params(variant=variant), hal.Params(gamma=5.0, variant=variant))
    params, apart = hal.Params(gamma=4.0, variant=variant), some_scores(4, 1) + torch.eye(4) * 1.5
    check_slope(lambda one: hal.loss(replace(one, weights=some_weights(4)), params), apart)


@VARIANTS
@WEIGHTED
@settings(deadline=None)
@given(**DRAWN, gamma=st.floats(1, 60), eps=st.floats(0, 1), mask=st.booleans())
def test_equals_plain_loops(variant, weighted, pairs, seed, owners, gamma, eps, mask):
    batch, weights = some_batch(pairs, seed, torch.tensor(owners[:pairs]), mask), some_weights(pairs, seed)
    batch = replace(batch, weights=weights if weighted else None)
    flags = batch.same.tolist(), weights.tolist() if weighted else None, variant == "extended"
    expected = naive.hal(batch.scores.tolist(), gamma, eps, variant == "code", *flags)
    _close(hal.loss(batch, hal.Params(gamma=gamma, eps=eps, variant=variant)), expected)


def test_negative_similarities_are_a_dead_end():
    scores, options = (torch.rand(6, 6) - 1.5).requires_grad_(), {"gamma": 60, "eps": 0.7, "variant": "paper"}
    total = _hal(scores, **options).total()
    total.backward()
    assert scores.grad.abs().max() < 1e-9


# HAL of EMNLP.
@READINGS
@NEGATIVES
@pytest.mark.parametrize("gradient", ["detached", "full"])
def test_hal_emnlp_contract(reading, negatives, gradient):
    params = emnlp.Params(margin=WIDE, reading=reading, negatives=negatives, gradient=gradient)
    check_contract(emnlp, params, params)


@READINGS
@NEGATIVES
@settings(deadline=None)
@given(**DRAWN, k=st.integers(1, 9), margin=st.floats(0, 1), mask=st.booleans())
def test_hal_emnlp_equals_plain_loops(reading, negatives, pairs, seed, owners, k, margin, mask):
    batch = some_batch(pairs, seed, torch.tensor(owners[:pairs]), mask)
    expected = naive.hal_emnlp(batch.scores.tolist(), margin, k, reading, negatives == "max", batch.same.tolist())
    _close(emnlp.loss(batch, emnlp.Params(margin=margin, k=k, reading=reading, negatives=negatives)), expected)


@READINGS
def test_gradient_flows_through_the_exponent_only_when_asked(reading):
    scores, options = some_scores(6, 4), {"margin": WIDE, "k": 2, "reading": reading}
    check_slope(lambda batch: emnlp.loss(batch, emnlp.Params(gradient="full", **options)), scores)
    _emnlp(scores.requires_grad_(), gradient="detached", **options).per_pair.sum().backward()
    # With every hinge open S'_it counts once in each direction, a positive against all 2 (B - 1) negatives.
    hubs = exponents(scores.detach(), torch.eye(6, dtype=torch.bool), 2, reading).exp()
    slope = torch.full((6, 6), 2.0, dtype=torch.float64).fill_diagonal_(-10)
    torch.testing.assert_close(scores.grad, slope * hubs)


# SUM and MAX, and the curriculum of all losses with a margin.


def _loss(name: str, batch: Scored, **options) -> LossTerms:
    member = LOSSES.load(name)
    return member.loss(batch, member.Params(**options))


@BOTH
def test_contract_of_hinges(name):
    check_contract(LOSSES.load(name), masked=LOSSES.options(name)())


@BOTH
@settings(deadline=None)
@given(**DRAWN, margin=st.floats(0, 1), mask=st.booleans())
def test_hinges_equal_plain_loops(name, pairs, seed, margin, owners, mask):
    batch = some_batch(pairs, seed, torch.tensor(owners[:pairs]), mask)
    expected = naive.hinge(batch.scores.tolist(), margin, hardest=name == "max", same=batch.same.tolist())
    _close(_loss(name, batch, margin=margin), expected)


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize(("passed", "count"), [(0, 6), (0.5, 5), (1, 4), (1.5, 2), (2, 1), (7, 1)])
def test_max_is_the_mean_of_fewer_and_fewer_violations(passed, count, mask):
    batch = replace(some_batch(owners=OWNERS, mask=mask), passed=float(passed))
    expected = naive.hinge_of_hardest(batch.scores.tolist(), 0.5, count, batch.same.tolist())
    _close(_loss("max", batch, margin=0.5, curriculum=2.0), [one / count for one in expected])


def test_a_curriculum_of_a_sum_of_all_negatives_is_refused():
    with pytest.raises(ValidationError, match="needs negatives: max"):
        LOSSES.options("hal_emnlp")(curriculum=1.0)


def test_every_step_has_the_progress_of_training(monkeypatch):
    scheme, passed = some_scheme(some_pairs(40, each=2), "max"), []

    def step(scheme, optimizer, batch):
        images, texts = scheme.model.encode(batch, torch.device("cpu"))
        passed.append(scheme.scored(images, texts, batch).passed)
        return torch.tensor([0.0, 1.0])

    monkeypatch.setattr(optimise, "step", step)
    work = adam(scheme.model, 1e-3), Averages(scheme.models, None), np.split(np.arange(40), 5)
    for epoch in range(2):
        optimise.train_epoch(scheme, *work, epoch)
    assert passed == [0, 0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.6, 1.8]
