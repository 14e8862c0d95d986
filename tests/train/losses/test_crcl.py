from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import training as naive
from tests.train.losses.contract import check_contract, check_masked_cells, some_batch, some_scores
from vse_pipe.project.registry import LOSSES
from vse_pipe.train.batch import Scored

member = LOSSES.load("crcl")


def test_contract():
    check_contract(member)
    check_masked_cells(member, member.Params(tau=0.5))


@settings(deadline=None, max_examples=20)
@given(
    pairs=st.integers(2, 8),
    seed=st.integers(0, 50),
    tau=st.floats(0.05, 2),
    weight=st.floats(0, 10),
    owners=st.lists(st.integers(0, 3), min_size=8, max_size=8),
    mask=st.booleans(),
    targets=st.none() | st.lists(st.floats(0, 1), min_size=8, max_size=8),
)
def test_equals_plain_loops(pairs, seed, tau, weight, owners, mask, targets):
    batch = some_batch(pairs, seed, torch.tensor(owners[:pairs]), mask)
    if targets is not None:
        batch = replace(batch, targets=torch.tensor(targets[:pairs], dtype=torch.float64))
    ours = member.loss(batch, member.Params(tau=tau, complementary=weight)).per_pair
    chosen = None if targets is None else targets[:pairs]
    expected = naive.crcl(batch.scores.tolist(), tau, weight, chosen, batch.same.tolist())
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-8)


def test_a_pair_that_nobody_trusts_costs_no_more_than_its_negatives_can():
    """At a target of 0 a share is at most twice the weight, however wrong the pair; at 1 it grows without end."""
    for target, bounded in ((0.0, True), (1.0, False)):
        scores = torch.eye(4, dtype=torch.float64)
        scores[0, 0] = -9
        batch = replace(Scored.from_scores(scores), targets=torch.tensor([target, 1, 1, 1], dtype=torch.float64))
        share = member.loss(batch, member.Params(tau=0.1)).per_pair[0].item()
        assert (share <= 10) == bounded


def test_a_certain_mistake_stays_finite():
    scores = (20 * some_scores().float()).requires_grad_()
    total = member.loss(
        replace(Scored.from_scores(scores), targets=torch.linspace(0, 1, 7)), member.Params(tau=1e-2)
    ).total()
    total.backward()
    assert torch.isfinite(total)
    assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize("target", [0.0, 0.4, 1.0])
def test_gradient_is_the_slope(target):
    targets = torch.full((5,), target, dtype=torch.float64)

    def share(scores):
        return member.loss(replace(Scored.from_scores(scores), targets=targets), member.Params(tau=0.3)).per_pair

    assert torch.autograd.gradcheck(share, some_scores(5, 2).requires_grad_())
