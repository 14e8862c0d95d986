import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.registry import LOSSES
from pipeline.train.losses._scored import Scored
from tests.naive import losses as naive
from tests.train.losses.contract import check_contract, check_masked_cells, some_scores

member = LOSSES.load("hal")


def test_contract():
    check_contract(member)
    check_masked_cells(member)


@pytest.mark.parametrize("variant", ["paper", "code"])
@given(pairs=st.integers(2, 9), seed=st.integers(0, 50), gamma=st.floats(1, 60), eps=st.floats(0, 1))
def test_equals_plain_loops(variant, pairs, seed, gamma, eps):
    scores = some_scores(pairs, seed)
    ours = member.loss(Scored.of(scores), member.Params(gamma=gamma, eps=eps, variant=variant)).per_pair
    expected = naive.hal(scores.tolist(), gamma, eps, keep_diagonal=variant == "code")
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64))


def test_large_gamma_stays_finite():
    terms = member.loss(Scored.of(some_scores().float()), member.Params(gamma=5000.0, eps=0.0))
    assert torch.isfinite(terms.total())


def test_opposite_positive_is_defined():
    scores = -torch.eye(4)
    assert torch.isfinite(member.loss(Scored.of(scores), member.Params()).total())


def test_a_closer_negative_weighs_more():
    scores = torch.full((3, 3), 0.2)
    scores[0, 1] = 0.5
    scores.requires_grad_()
    member.loss(Scored.of(scores), member.Params()).total().backward()
    assert scores.grad[0, 1] > 10 * scores.grad[0, 2] > 0


def test_negative_similarities_are_a_dead_end_and_called_one():
    scores = (torch.rand(6, 6) - 1.5).requires_grad_()
    total = member.loss(Scored.of(scores), member.Params(gamma=60, eps=0.7)).total()
    total.backward()
    assert scores.grad.abs().max() < 1e-9
    assert "nothing is learnt" in member.stuck(total.item(), 6, member.Params())
    learning = member.loss(Scored.of(torch.eye(6)), member.Params(gamma=60, eps=0.7)).total().item()
    assert member.stuck(learning, 6, member.Params()) is None
