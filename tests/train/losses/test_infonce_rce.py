import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.naive import losses as naive
from tests.train.losses.contract import check_contract, check_masked_cells, some_batch, some_scores
from vse_pipe.project.registry import LOSSES
from vse_pipe.train.batch import Scored

member = LOSSES.load("infonce_rce")


def test_contract():
    check_contract(member)
    check_masked_cells(member)


@settings(deadline=None)
@given(
    pairs=st.integers(2, 8),
    seed=st.integers(0, 50),
    tau=st.floats(0.02, 2),
    floor=st.floats(1e-9, 0.5),
    owners=st.lists(st.integers(0, 3), min_size=8, max_size=8),
    mask=st.booleans(),
)
def test_equals_plain_loops(pairs, seed, tau, floor, owners, mask):
    batch = some_batch(pairs, seed, torch.tensor(owners[:pairs]), mask)
    ours = member.loss(batch, member.Params(tau=tau, floor=floor)).per_pair
    expected = naive.infonce_rce(batch.scores.tolist(), tau, floor, batch.same.tolist())
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64))


def test_a_mismatched_pair_is_bounded_in_the_reverse_term_only():
    """All chances on negatives: RCE costs ``-log(floor)`` a direction and no more, CE goes on with S."""
    terms = [
        member.loss(Scored.from_scores(-depth * torch.eye(4)), member.Params(tau=0.05)).parts for depth in (5.0, 50.0)
    ]
    for parts in terms:
        assert parts["rce"].item() == pytest.approx(2 * -math.log(1e-7), rel=1e-5)
    assert terms[1]["ce"].item() > 9 * terms[0]["ce"].item()


def test_certain_matches_cost_nothing():
    total = member.loss(Scored.from_scores(10 * torch.eye(4)), member.Params()).total()
    assert abs(total.item()) < 1e-6


def test_half_of_infonce_and_of_the_reverse_term():
    infonce = LOSSES.load("infonce")
    terms = member.loss(Scored.from_scores(some_scores()), member.Params())
    cross = infonce.loss(Scored.from_scores(some_scores()), infonce.Params()).total()
    torch.testing.assert_close(terms.parts["ce"], cross)
    torch.testing.assert_close(terms.total(), 0.5 * (cross + terms.parts["rce"]))


@pytest.mark.parametrize("floor", [0.0, 1.0])
def test_a_floor_without_a_logarithm_or_a_price_is_refused(floor):
    with pytest.raises(ValidationError):
        member.Params(floor=floor)


def test_gradient_is_the_slope():
    def share(scores):
        return member.loss(Scored.from_scores(scores), member.Params(tau=0.3)).per_pair

    assert torch.autograd.gradcheck(share, some_scores(5, 2).requires_grad_())
