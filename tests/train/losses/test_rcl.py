import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import losses as naive
from tests.train.losses.contract import check_contract, check_masked_cells, some_batch, some_scores
from vse_pipe.project.registry import LOSSES
from vse_pipe.train.batch import Scored

member = LOSSES.load("rcl")
METHODS = ["log", "tan", "abs", "exp", "gce"]


@pytest.mark.parametrize("method", METHODS)
def test_contract(method):
    check_contract(member, member.Params(method=method))
    check_masked_cells(member, member.Params(method=method, tau=0.5))


@pytest.mark.parametrize("method", METHODS)
@settings(deadline=None, max_examples=30)
@given(
    pairs=st.integers(2, 8),
    seed=st.integers(0, 50),
    tau=st.floats(0.1, 2),
    q=st.floats(0.05, 1),
    owners=st.lists(st.integers(0, 3), min_size=8, max_size=8),
    mask=st.booleans(),
)
def test_equals_plain_loops(method, pairs, seed, tau, q, owners, mask):
    batch = some_batch(pairs, seed, torch.tensor(owners[:pairs]), mask)
    ours = member.loss(batch, member.Params(tau=tau, method=method, q=q)).per_pair
    expected = naive.rcl(batch.scores.tolist(), tau, method, q, batch.same.tolist())
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_a_clear_negative_costs_more_the_closer_it_is(method):
    scores = torch.eye(3)
    totals = []
    for close in (0.0, 0.9, 1.1):
        scores[0, 1] = close
        totals.append(member.loss(Scored.from_scores(scores), member.Params(method=method)).total())
    assert totals[0] < totals[1] < totals[2]


@pytest.mark.parametrize("method", METHODS)
def test_a_certain_mistake_stays_finite(method):
    scores = (20 * some_scores().float()).requires_grad_()
    total = member.loss(Scored.from_scores(scores), member.Params(method=method, tau=1e-3)).total()
    total.backward()
    assert torch.isfinite(total)
    assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize("method", METHODS)
def test_gradient_is_the_slope(method):
    def share(scores):
        return member.loss(Scored.from_scores(scores), member.Params(tau=0.3, method=method)).per_pair

    assert torch.autograd.gradcheck(share, some_scores(5, 2).requires_grad_())


def test_equal_similarities_cost_what_the_formula_says():
    total = member.loss(Scored.from_scores(torch.full((4, 4), 0.3)), member.Params()).total()
    assert total.item() == pytest.approx(-2 * 3 * math.log(0.75), rel=1e-5)
