from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import training as naive
from tests.train.losses.contract import check_contract, check_masked_cells, some_batch, some_scores
from vse_pipe.project.registry import LOSSES
from vse_pipe.train.batch import Scored, fits

member = LOSSES.load("decl")


@pytest.mark.parametrize("hardest", [1, 5, 100])
def test_contract(hardest):
    check_contract(member, member.Params(hardest=hardest))
    check_masked_cells(member, member.Params(hardest=hardest, tau=0.5))


@settings(deadline=None, max_examples=20)
@given(
    pairs=st.integers(2, 8),
    seed=st.integers(0, 50),
    options=st.fixed_dictionaries(
        {
            "tau": st.floats(0.1, 2),
            "margin": st.floats(0, 0.6),
            "hardest": st.integers(1, 9),
            "lambda1": st.floats(0, 2),
            "lambda2": st.floats(0, 1),
        }
    ),
    owners=st.lists(st.integers(0, 3), min_size=8, max_size=8),
    mask=st.booleans(),
    targets=st.none() | st.lists(st.floats(0, 1), min_size=8, max_size=8),
)
def test_equals_plain_loops(pairs, seed, options, owners, mask, targets):
    batch = some_batch(pairs, seed, torch.tensor(owners[:pairs]), mask)
    if targets is not None:
        batch = replace(batch, targets=torch.tensor(targets[:pairs], dtype=torch.float64))
    ours = member.loss(batch, member.Params(**options)).per_pair
    chosen = None if targets is None else targets[:pairs]
    expected = naive.decl(batch.scores.tolist(), options, chosen, batch.same.tolist())
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-8)


def test_fits_are_shares_of_the_evidence_for_image_and_text():
    batch = some_batch(5, 1)
    found = fits(batch, 0.2)
    both = [[(batch.scores[i, t].tanh() / 0.2).exp() for t in range(5)] for i in range(5)]
    for i in range(5):
        row = [both[i][t] + both[t][i] for t in range(5)]
        torch.testing.assert_close(found[i], torch.stack(row) / sum(row))


@pytest.mark.parametrize(("target", "moves"), [(1.0, True), (0.0, False)])
def test_a_pair_taken_for_mismatched_is_not_pulled_together(target, moves):
    scores = torch.zeros(6, 6, dtype=torch.float64).requires_grad_()
    targets = torch.tensor([target, 1, 1, 1, 1, 1], dtype=torch.float64)
    member.loss(replace(Scored.from_scores(scores), targets=targets), member.Params()).total().backward()
    assert (scores.grad[0, 0].item() < 0) == moves


def test_large_evidence_in_a_large_batch_keeps_its_gradient():
    """float32 against float64: the divergence is a small difference of large logarithms."""
    given = torch.randn(128, 128, generator=torch.Generator().manual_seed(3)) + 3 * torch.eye(128)
    slopes = []
    for kind in (torch.float32, torch.float64):
        scores = given.detach().to(kind, copy=True).requires_grad_()
        member.loss(Scored.from_scores(scores), member.Params()).total().backward()
        slopes.append(scores.grad.double())
    torch.testing.assert_close(slopes[0], slopes[1], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("target", [0.0, 1.0])
def test_gradient_is_the_slope(target):
    targets = torch.full((5,), target, dtype=torch.float64)

    def share(scores):
        return member.loss(replace(Scored.from_scores(scores), targets=targets), member.Params(tau=0.3)).per_pair

    assert torch.autograd.gradcheck(share, some_scores(5, 2).requires_grad_())
