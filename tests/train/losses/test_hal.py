import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import losses as naive
from tests.train.losses.contract import OWNERS, check_contract, check_masked_cells, some_batch, some_scores
from vse_pipe.project.registry import LOSSES
from vse_pipe.train.batch import Scored

member = LOSSES.load("hal")
VARIANTS = pytest.mark.parametrize("variant", ["extended", "paper", "code"])


def some_weights(pairs: int = 7, seed: int = 0) -> torch.Tensor:
    return torch.rand(pairs, pairs, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@VARIANTS
def test_contract(variant):
    check_contract(member, member.Params(variant=variant))
    check_masked_cells(member, member.Params(gamma=5.0, variant=variant))


@VARIANTS
@pytest.mark.parametrize("weighted", [False, True])
@settings(deadline=None)
@given(pairs=st.integers(2, 9), seed=st.integers(0, 50), gamma=st.floats(1, 60), eps=st.floats(0, 1))
def test_equals_plain_loops(variant, weighted, pairs, seed, gamma, eps):
    scores = some_scores(pairs, seed)
    weights = some_weights(pairs, seed) if weighted else None
    params = member.Params(gamma=gamma, eps=eps, variant=variant)
    ours = member.loss(Scored.from_scores(scores, weights=weights), params).per_pair
    given_weights = weights.tolist() if weighted else None
    extended = variant == "extended"
    expected = naive.hal(scores.tolist(), gamma, eps, variant == "code", weights=given_weights, extended=extended)
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64))


@VARIANTS
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_plain_loops_under_the_mask(variant, weighted):
    batch, weights = some_batch(owners=OWNERS, mask=True), some_weights() if weighted else None
    params = member.Params(gamma=7.0, eps=0.2, variant=variant)
    ours = member.loss(Scored.from_scores(batch.scores, OWNERS, True, weights=weights), params).per_pair
    given_weights = weights.tolist() if weighted else None
    same, extended = batch.same.tolist(), variant == "extended"
    expected = naive.hal(batch.scores.tolist(), 7.0, 0.2, variant == "code", same, given_weights, extended)
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_are_the_weights_of_equation_8(weighted):
    scores = some_scores(6, 3) + torch.eye(6) * 1.2
    factor = some_weights(6) if weighted else torch.ones(6, 6, dtype=torch.float64)
    gamma, eps = 9.0, 0.1
    leaf = scores.clone().requires_grad_()
    batch = Scored.from_scores(leaf, weights=factor if weighted else None)
    member.loss(batch, member.Params(gamma=gamma, eps=eps)).total().backward()

    inner = torch.exp(gamma * factor * (scores - eps)).fill_diagonal_(0)
    expected = factor * inner * (1 / (1 + inner.sum(dim=0))[None, :] + 1 / (1 + inner.sum(dim=1))[:, None])
    positive = factor.diagonal() / (1 + factor.diagonal() * scores.diagonal())
    expected = expected.diagonal_scatter(-positive)
    torch.testing.assert_close(6 * leaf.grad, expected)


@VARIANTS
def test_gradient_is_the_slope(variant):
    scores = (some_scores(4, 1) + torch.eye(4) * 1.5).requires_grad_()
    params = member.Params(gamma=4.0, variant=variant)

    def share(scores):
        return member.loss(Scored.from_scores(scores, weights=some_weights(4)), params).per_pair

    assert torch.autograd.gradcheck(share, scores)


def test_weights_of_one_are_no_weights():
    scores = some_scores()
    plain = member.loss(Scored.from_scores(scores), member.Params())
    ones = member.loss(Scored.from_scores(scores, weights=torch.ones_like(scores)), member.Params())
    torch.testing.assert_close(ones.per_pair, plain.per_pair)


def test_the_authors_zeroed_weight_adds_one_to_each_sum():
    """With every negative far away ``1/g log(2)`` is left of each direction; the paper leaves nothing."""
    scores = torch.full((3, 3), -50.0)
    weights = torch.ones(3, 3)
    code = member.loss(Scored.from_scores(scores, weights=weights), member.Params(gamma=2.0, variant="code"))
    torch.testing.assert_close(code.per_pair, torch.full((3,), torch.log(torch.tensor(2.0)).item()))
    paper = member.loss(Scored.from_scores(scores, weights=weights), member.Params(gamma=2.0, variant="paper"))
    torch.testing.assert_close(paper.per_pair, torch.zeros(3))


def test_large_gamma_stays_finite():
    terms = member.loss(Scored.from_scores(some_scores().float()), member.Params(gamma=5000.0, eps=0.0))
    assert torch.isfinite(terms.total())


def test_opposite_positive_is_defined():
    scores = -torch.eye(4)
    assert torch.isfinite(member.loss(Scored.from_scores(scores), member.Params()).total())


def test_a_closer_negative_weighs_more():
    scores = torch.full((3, 3), 0.2)
    scores[0, 1] = 0.5
    scores.requires_grad_()
    member.loss(Scored.from_scores(scores), member.Params()).total().backward()
    assert scores.grad[0, 1] > 10 * scores.grad[0, 2] > 0


def test_negative_similarities_are_a_dead_end_and_called_one():
    scores = (torch.rand(6, 6) - 1.5).requires_grad_()
    params = member.Params(gamma=60, eps=0.7, variant="paper")
    total = member.loss(Scored.from_scores(scores), params).total()
    total.backward()
    assert scores.grad.abs().max() < 1e-9
    assert "pulls no pair together; set loss.hal.variant: extended" in member.stuck(total.item(), 6, params)
    learning = member.loss(Scored.from_scores(torch.eye(6)), params).total().item()
    assert member.stuck(learning, 6, params) is None


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("variant", ["paper", "code"])
def test_the_dead_end_reaches_up_to_similarities_of_0(variant, weighted):
    """At gamma 30 and eps 0.3 the loss of a batch of 128 is then 0.001 and not 0."""
    params = member.Params(gamma=30.0, eps=0.3, variant=variant)
    weights = torch.ones(128, 128) if weighted else None
    at_zero = member.loss(Scored.from_scores(torch.zeros(128, 128), weights=weights), params).total().item()
    assert member.stuck(at_zero, 128, params)
    assert member.stuck(0.2, 128, params) is None
    assert member.stuck(-0.01, 128, params) is None
    assert member.stuck(at_zero, 128, member.Params(gamma=30.0, eps=0.3, variant="extended")) is None


def test_extended_is_the_paper_above_0_and_pulls_every_pair_below():
    above, params = torch.rand(5, 5) + 0.01, {"gamma": 30.0, "eps": 0.3}
    paper, extended = (member.Params(variant=name, **params) for name in ("paper", "extended"))
    torch.testing.assert_close(
        member.loss(Scored.from_scores(above), extended).per_pair,
        member.loss(Scored.from_scores(above), paper).per_pair,
        rtol=0,
        atol=0,
    )
    for height in (0.0, -1e-3, -0.5, -1.0, -7.0):
        scores = torch.full((5, 5), height, requires_grad=True)
        member.loss(Scored.from_scores(scores), extended).total().backward()
        torch.testing.assert_close(5 * scores.grad.diagonal(), torch.full((5,), -0.1))
    below = -torch.rand(5, 5, dtype=torch.float64)
    expected = naive.hal(below.tolist(), 30.0, 0.3, False, extended=True)
    torch.testing.assert_close(
        member.loss(Scored.from_scores(below), extended).per_pair, torch.tensor(expected, dtype=torch.float64)
    )
