import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import losses as naive
from tests.train.losses.contract import (
    OWNERS,
    batch_of,
    check_contract,
    check_masked_cells,
    some_batch,
    some_scores,
    some_vectors,
)
from vse_pipe.project.registry import LOSSES
from vse_pipe.train.batch import Scored
from vse_pipe.train.losses.hal_emnlp import exponents

member = LOSSES.load("hal_emnlp")
READINGS = pytest.mark.parametrize("reading", ["A", "B"])
NEGATIVES = pytest.mark.parametrize("negatives", ["sum", "max"])
# Wide enough that every negative violates it: each image and each text then has a gradient.
WIDE = 20.0


@READINGS
@NEGATIVES
@pytest.mark.parametrize("gradient", ["detached", "full"])
def test_contract(reading, negatives, gradient):
    params = member.Params(margin=WIDE, reading=reading, negatives=negatives, gradient=gradient)
    check_contract(member, params)
    check_masked_cells(member, params)


@READINGS
@NEGATIVES
@settings(deadline=None)
@given(pairs=st.integers(2, 8), seed=st.integers(0, 50), k=st.integers(1, 9), margin=st.floats(0, 1))
def test_equals_plain_loops(reading, negatives, pairs, seed, k, margin):
    scores = some_scores(pairs, seed)
    params = member.Params(margin=margin, k=k, reading=reading, negatives=negatives)
    ours = member.loss(Scored.from_scores(scores), params).per_pair
    expected = naive.hal_emnlp(scores.tolist(), margin, k, reading, negatives == "max")
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64))


@READINGS
@settings(deadline=None)
@given(
    pairs=st.integers(2, 8),
    seed=st.integers(0, 50),
    k=st.integers(1, 9),
    owners=st.lists(st.integers(0, 3), min_size=8, max_size=8),
)
def test_equals_plain_loops_under_the_mask(reading, pairs, seed, k, owners):
    batch = some_batch(pairs, seed, torch.tensor(owners[:pairs]), mask=True)
    params = member.Params(margin=0.6, k=k, reading=reading)
    expected = naive.hal_emnlp(batch.scores.tolist(), 0.6, k, reading, False, batch.same.tolist())
    ours = member.loss(batch, params).per_pair
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64))


@READINGS
def test_equal_scores_make_no_difference_to_the_exponent(reading):
    """Ties: whichever of the equal neighbours is left out, the mean is the same."""
    same = torch.eye(5, dtype=torch.bool)
    torch.testing.assert_close(exponents(torch.full((5, 5), 0.3), same, 2, reading), torch.full((5, 5), 0.6))


def test_constant_neighbourhoods_scale_the_sum():
    """Under A with all negatives at c, S' = S e^(2c): SUM at a smaller margin, times e^(2c)."""
    scores = torch.full((6, 6), 0.3, dtype=torch.float64)
    scores.diagonal().copy_(torch.tensor([0.25, 0.31, 0.4, 0.3, 0.2, 0.35]))
    scale = torch.exp(torch.tensor(0.6, dtype=torch.float64))
    plain = LOSSES.load("sum")
    expected = plain.loss(Scored.from_scores(scores), plain.Params(margin=0.2 / scale.item())).per_pair * scale
    ours = member.loss(Scored.from_scores(scores), member.Params(margin=0.2)).per_pair
    torch.testing.assert_close(ours, expected)
    assert (ours > 0).any()


@READINGS
def test_max_never_exceeds_sum(reading):
    batch = batch_of(*some_vectors(9, 3))
    hardest, every = (
        member.loss(batch, member.Params(margin=1.0, reading=reading, negatives=negatives)).per_pair
        for negatives in ("max", "sum")
    )
    assert (hardest <= every).all()
    assert (hardest < every).any()


def test_a_hub_costs_more_than_the_same_score_elsewhere():
    """Two negatives of image 0 score alike; text 2 is near all images, so its cell weighs more."""
    scores = torch.full((4, 4), 0.1)
    scores.diagonal().fill_(0.5)
    scores[0, 1] = scores[0, 2] = 0.4
    scores[1, 2] = scores[3, 2] = 0.45
    scores.requires_grad_()
    member.loss(Scored.from_scores(scores), member.Params(margin=2.0)).total().backward()
    assert scores.grad[0, 2] > scores.grad[0, 1] > 0


@READINGS
@pytest.mark.parametrize("gradient", ["detached", "full"])
def test_gradient_flows_through_the_exponent_only_when_asked(reading, gradient):
    scores = some_scores(6, 4).requires_grad_()
    params = member.Params(margin=WIDE, k=2, reading=reading, gradient=gradient)

    def share(scores):
        return member.loss(Scored.from_scores(scores), params).per_pair

    if gradient == "full":
        assert torch.autograd.gradcheck(share, scores)
        return
    share(scores).sum().backward()
    # With every hinge open S'_it counts once in each direction, a positive against all 2 (B - 1) negatives.
    hubs = exponents(scores.detach(), torch.eye(6, dtype=torch.bool), 2, reading).exp()
    slope = torch.full((6, 6), 2.0, dtype=torch.float64).fill_diagonal_(-10)
    torch.testing.assert_close(scores.grad, slope * hubs)


def test_only_max_has_a_plateau():
    for level in (0.0, 0.3):
        batch = Scored.from_scores(torch.full((8, 8), level))
        hardest = member.Params(negatives="max")
        total = member.loss(batch, hardest).total().item()
        assert "plateau of 3.2" in member.stuck(total, 8, hardest)
        assert member.stuck(0.9 * total, 8, hardest) is None
        assert member.stuck(total, 8, member.Params()) is None


def test_masked_captions_are_nobodys_neighbours():
    """Image 30 has three captions: near as the others of a pair are, they do not raise its exponent."""
    batch = some_batch(owners=OWNERS, mask=True)
    masked = batch.same & ~torch.eye(7, dtype=torch.bool)
    near = batch.scores.masked_fill(masked, 100.0)
    for reading in ("A", "B"):
        assert exponents(near, batch.same, 2, reading)[~masked].max() < 3


@pytest.mark.parametrize("reading", ["A", "B"])
def test_more_neighbours_than_a_number_can_say_are_all(reading):
    batch = some_batch()
    everything, beyond = (member.Params(k=k, reading=reading) for k in (len(batch.scores), 2**63))
    assert torch.equal(member.loss(batch, beyond).per_pair, member.loss(batch, everything).per_pair)


@pytest.mark.parametrize(("sign", "heavier"), [(1.0, True), (-1.0, False)])
def test_a_hub_weighs_more_among_positive_scores_and_less_among_negative_ones(sign, heavier):
    """Image 0 scores texts 1 and 2 alike; text 1 lies nearer to the other images."""
    scores = torch.full((4, 4), 0.5 * sign, dtype=torch.float64)
    scores[2:, 1] += 0.3
    hub, other = (scores * exponents(scores, torch.eye(4, dtype=torch.bool), 2, "A").exp())[0, 1:3]
    assert (hub > other) == heavier
