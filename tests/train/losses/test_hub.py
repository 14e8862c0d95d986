import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import losses as naive
from tests.train.losses.contract import OWNERS, check_contract, check_masked_cells, some_batch, some_scores
from vse_pipe.project.registry import LOSSES
from vse_pipe.train.batch import Scored
from vse_pipe.train.losses.hub import _towards, plan

member = LOSSES.load("hub")


def test_contract():
    check_contract(member)
    check_masked_cells(member)


@settings(deadline=None, max_examples=20)
@given(
    pairs=st.integers(2, 7),
    seed=st.integers(0, 50),
    tau=st.floats(0.05, 1),
    centrality=st.floats(0, 2),
    uniform=st.floats(0, 2),
    beta=st.floats(0, 1),
    owners=st.lists(st.integers(0, 3), min_size=7, max_size=7),
    mask=st.booleans(),
)
def test_equals_plain_loops(pairs, seed, tau, centrality, uniform, beta, owners, mask):
    batch = some_batch(pairs, seed, torch.tensor(owners[:pairs]), mask)
    params = member.Params(tau=tau, centrality=centrality, uniform=uniform, beta=beta, iterations=6)
    expected = naive.hub(batch.scores.tolist(), tau, centrality, uniform, beta, 6, batch.same.tolist())
    torch.testing.assert_close(member.loss(batch, params).per_pair, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("mask", [False, True])
def test_in_the_plan_everything_is_found_as_often(mask):
    batch = some_batch(owners=OWNERS, mask=mask)
    found = plan(batch, 0.2, 400)
    torch.testing.assert_close(found.sum(dim=0), torch.ones(7, dtype=torch.float64))
    torch.testing.assert_close(found.sum(dim=1), torch.ones(7, dtype=torch.float64), atol=1e-3, rtol=0)
    assert not found[batch.same & ~torch.eye(7, dtype=torch.bool)].any()


def test_a_small_temperature_overflows_nothing():
    scores = some_scores().float().requires_grad_()
    member.loss(Scored.from_scores(scores), member.Params(tau=1e-3)).total().backward()
    assert torch.isfinite(scores.grad).all()


def test_without_both_parts_it_is_infonce():
    batch, infonce = some_batch(), LOSSES.load("infonce")
    ours = member.loss(batch, member.Params(tau=0.1, centrality=0, uniform=0)).per_pair
    torch.testing.assert_close(ours, infonce.loss(batch, infonce.Params(tau=0.1)).per_pair)


def test_a_text_that_all_images_find_is_pushed_from_them_more():
    scores = torch.eye(5, dtype=torch.float64) * 0.6
    scores[:, 2] += 0.3
    slopes = []
    for uniform in (0.0, 1.0):
        given = scores.clone().requires_grad_()
        params = member.Params(tau=0.3, centrality=0.0, uniform=uniform, beta=1.0)
        member.loss(Scored.from_scores(given), params).total().backward()
        slopes.append(given.grad[[0, 1, 3, 4], 2].sum() - given.grad[[1, 3, 4], 0].sum())
    assert slopes[1] > slopes[0] > 0


def test_gradient_is_the_slope_of_all_but_the_plan():
    scores = some_batch(5, 2).scores
    found, params = plan(Scored.from_scores(scores), 0.2, 50), member.Params(tau=0.2, centrality=0.8)

    def share(given):
        return _towards(Scored.from_scores(given), found, params).per_pair

    assert torch.autograd.gradcheck(share, (scores.clone().requires_grad_(),))
    whole, fixed = (scores.clone().requires_grad_() for _ in range(2))
    member.loss(Scored.from_scores(whole), params).total().backward()
    share(fixed).mean().backward()
    torch.testing.assert_close(whole.grad, fixed.grad)
