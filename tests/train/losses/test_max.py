import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import losses as naive
from tests.train.losses.contract import OWNERS, check_contract, check_masked_cells, some_batch, some_scores
from vse_pipe.project.registry import LOSSES
from vse_pipe.train.batch import Scored

member = LOSSES.load("max")


def test_contract():
    check_contract(member)
    check_masked_cells(member)


@settings(deadline=None)
@given(pairs=st.integers(2, 9), seed=st.integers(0, 50), margin=st.floats(0, 1))
def test_equals_plain_loops(pairs, seed, margin):
    scores = some_scores(pairs, seed)
    ours = member.loss(Scored.from_scores(scores), member.Params(margin=margin)).per_pair
    expected = torch.tensor(naive.hinge(scores.tolist(), margin, hardest=True), dtype=torch.float64)
    torch.testing.assert_close(ours, expected)


def test_equals_plain_loops_under_the_mask():
    batch = some_batch(owners=OWNERS, mask=True)
    ours = member.loss(batch, member.Params(margin=0.5)).per_pair
    expected = naive.hinge(batch.scores.tolist(), 0.5, hardest=True, same=batch.same.tolist())
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64))


def test_equal_similarities_sit_on_the_plateau():
    terms = member.loss(Scored.from_scores(torch.zeros(8, 8)), member.Params(margin=0.2))
    torch.testing.assert_close(terms.total(), torch.tensor(2 * 8 * 0.2))
    assert "plateau of 3.2" in member.stuck(float(terms.total()), 8, member.Params(margin=0.2))
    assert member.stuck(0.9 * float(terms.total()), 8, member.Params(margin=0.2)) is None


def test_never_exceeds_the_sum_of_violations():
    scores = some_scores(9, 3)
    every = LOSSES.load("sum")
    assert (
        member.loss(Scored.from_scores(scores), member.Params()).per_pair
        <= every.loss(Scored.from_scores(scores), every.Params()).per_pair
    ).all()


def test_gradient_goes_to_one_hard_negative_of_each_kind():
    scores = torch.tensor([[0.5, 0.49, 0.48], [0.1, 0.5, 0.2], [0.1, 0.2, 0.5]], requires_grad=True)
    member.loss(Scored.from_scores(scores), member.Params(margin=0.05)).total().backward()
    assert scores.grad[0].tolist() == [-1.0, 2.0, 1.0]
