import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import losses as naive
from tests.train.losses.contract import OWNERS, check_contract, check_masked_cells, some_batch, some_scores
from vse_pipe.project.registry import LOSSES
from vse_pipe.train.batch import Scored

member = LOSSES.load("sum")


def test_contract():
    check_contract(member)
    check_masked_cells(member)


@settings(deadline=None)
@given(pairs=st.integers(2, 9), seed=st.integers(0, 50), margin=st.floats(0, 1))
def test_equals_plain_loops(pairs, seed, margin):
    scores = some_scores(pairs, seed)
    ours = member.loss(Scored.from_scores(scores), member.Params(margin=margin)).per_pair
    expected = torch.tensor(naive.hinge(scores.tolist(), margin, hardest=False), dtype=torch.float64)
    torch.testing.assert_close(ours, expected)


def test_equals_plain_loops_under_the_mask():
    batch = some_batch(owners=OWNERS, mask=True)
    ours = member.loss(batch, member.Params(margin=0.5)).per_pair
    expected = naive.hinge(batch.scores.tolist(), 0.5, hardest=False, same=batch.same.tolist())
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64))


def test_satisfied_margins_cost_nothing():
    assert member.loss(Scored.from_scores(torch.eye(5)), member.Params(margin=0.2)).total().item() == 0.0
