"""HAL of both papers, against loops."""

from dataclasses import replace

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

hal = LOSSES.load("hal")
BATCHES = {
    "pairs": st.integers(2, 9),
    "seed": st.integers(0, 50),
    "owners": st.lists(st.integers(0, 3), min_size=9, max_size=9),
}
VARIANTS = pytest.mark.parametrize("variant", ["extended", "paper", "code"])


def some_weights(pairs: int = 7, seed: int = 0) -> torch.Tensor:
    return torch.rand(pairs, pairs, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@VARIANTS
def test_contract(variant):
    check_contract(hal, hal.Params(variant=variant))
    check_masked_cells(hal, hal.Params(gamma=5.0, variant=variant))


@VARIANTS
@pytest.mark.parametrize("weighted", [False, True])
@settings(deadline=None)
@given(**BATCHES, gamma=st.floats(1, 60), eps=st.floats(0, 1), mask=st.booleans())
def test_equals_plain_loops(variant, weighted, pairs, seed, owners, gamma, eps, mask):
    batch, weights = some_batch(pairs, seed, torch.tensor(owners[:pairs]), mask), some_weights(pairs, seed)
    batch = replace(batch, weights=weights if weighted else None)
    loss = hal.loss(batch, hal.Params(gamma=gamma, eps=eps, variant=variant)).per_pair
    flags = batch.same.tolist(), weights.tolist() if weighted else None, variant == "extended"
    expected = naive.hal(batch.scores.tolist(), gamma, eps, variant == "code", *flags)
    torch.testing.assert_close(loss, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_are_the_weights_of_equation_8(weighted):
    scores = some_scores(6, 3) + torch.eye(6) * 1.2
    factor = some_weights(6) if weighted else torch.ones(6, 6, dtype=torch.float64)
    gamma, eps = 9.0, 0.1
    leaf = scores.clone().requires_grad_()
    batch = Scored.from_scores(leaf, weights=factor if weighted else None)
    hal.loss(batch, hal.Params(gamma=gamma, eps=eps)).total().backward()

    inner = torch.exp(gamma * factor * (scores - eps)).fill_diagonal_(0)
    expected = factor * inner * (1 / (1 + inner.sum(dim=0))[None, :] + 1 / (1 + inner.sum(dim=1))[:, None])
    positive = factor.diagonal() / (1 + factor.diagonal() * scores.diagonal())
    expected = expected.diagonal_scatter(-positive)
    torch.testing.assert_close(6 * leaf.grad, expected)


@VARIANTS
def test_gradient_is_the_slope(variant):
    scores = (some_scores(4, 1) + torch.eye(4) * 1.5).requires_grad_()
    params = hal.Params(gamma=4.0, variant=variant)

    def share(scores):
        return hal.loss(Scored.from_scores(scores, weights=some_weights(4)), params).per_pair

    assert torch.autograd.gradcheck(share, scores)


def test_weights_of_one_are_no_weights():
    scores = some_scores()
    plain = hal.loss(Scored.from_scores(scores), hal.Params())
    ones = hal.loss(Scored.from_scores(scores, weights=torch.ones_like(scores)), hal.Params())
    torch.testing.assert_close(ones.per_pair, plain.per_pair)


def test_the_authors_zeroed_weight_adds_one_to_each_sum():
    """With every negative far away ``1/g log(2)`` is left of each direction; the paper leaves nothing."""
    scores = torch.full((3, 3), -50.0)
    weights = torch.ones(3, 3)
    code = hal.loss(Scored.from_scores(scores, weights=weights), hal.Params(gamma=2.0, variant="code"))
    torch.testing.assert_close(code.per_pair, torch.full((3,), torch.log(torch.tensor(2.0)).item()))
    paper = hal.loss(Scored.from_scores(scores, weights=weights), hal.Params(gamma=2.0, variant="paper"))
    torch.testing.assert_close(paper.per_pair, torch.zeros(3))


def test_large_gamma_stays_finite():
    terms = hal.loss(Scored.from_scores(some_scores().float()), hal.Params(gamma=5000.0, eps=0.0))
    assert torch.isfinite(terms.total())


def test_opposite_positive_is_defined():
    scores = -torch.eye(4)
    assert torch.isfinite(hal.loss(Scored.from_scores(scores), hal.Params()).total())


def test_a_closer_negative_weighs_more():
    scores = torch.full((3, 3), 0.2)
    scores[0, 1] = 0.5
    scores.requires_grad_()
    hal.loss(Scored.from_scores(scores), hal.Params()).total().backward()
    assert scores.grad[0, 1] > 10 * scores.grad[0, 2] > 0


def test_negative_similarities_are_a_dead_end_and_called_one():
    scores = (torch.rand(6, 6) - 1.5).requires_grad_()
    params = hal.Params(gamma=60, eps=0.7, variant="paper")
    total = hal.loss(Scored.from_scores(scores), params).total()
    total.backward()
    assert scores.grad.abs().max() < 1e-9
    assert "pulls no pair together; set loss.hal.variant: extended" in hal.stuck(total.item(), 6, params)
    learning = hal.loss(Scored.from_scores(torch.eye(6)), params).total().item()
    assert hal.stuck(learning, 6, params) is None


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("variant", ["paper", "code"])
def test_the_dead_end_reaches_up_to_similarities_of_0(variant, weighted):
    """At gamma 30 and eps 0.3 the loss of a batch of 128 is then 0.001 and not 0."""
    params = hal.Params(gamma=30.0, eps=0.3, variant=variant)
    weights = torch.ones(128, 128) if weighted else None
    at_zero = hal.loss(Scored.from_scores(torch.zeros(128, 128), weights=weights), params).total().item()
    assert hal.stuck(at_zero, 128, params)
    assert hal.stuck(0.2, 128, params) is None
    assert hal.stuck(-0.01, 128, params) is None
    assert hal.stuck(at_zero, 128, hal.Params(gamma=30.0, eps=0.3, variant="extended")) is None


def test_extended_is_the_paper_above_0_and_pulls_every_pair_below():
    above, params = torch.rand(5, 5) + 0.01, {"gamma": 30.0, "eps": 0.3}
    paper, extended = (hal.Params(variant=name, **params) for name in ("paper", "extended"))
    torch.testing.assert_close(
        hal.loss(Scored.from_scores(above), extended).per_pair,
        hal.loss(Scored.from_scores(above), paper).per_pair,
        rtol=0,
        atol=0,
    )
    for height in (0.0, -1e-3, -0.5, -1.0, -7.0):
        scores = torch.full((5, 5), height, requires_grad=True)
        hal.loss(Scored.from_scores(scores), extended).total().backward()
        torch.testing.assert_close(5 * scores.grad.diagonal(), torch.full((5,), -0.1))
    below = -torch.rand(5, 5, dtype=torch.float64)
    expected = naive.hal(below.tolist(), 30.0, 0.3, False, extended=True)
    torch.testing.assert_close(
        hal.loss(Scored.from_scores(below), extended).per_pair, torch.tensor(expected, dtype=torch.float64)
    )


emnlp = LOSSES.load("hal_emnlp")
READINGS = pytest.mark.parametrize("reading", ["A", "B"])
NEGATIVES = pytest.mark.parametrize("negatives", ["sum", "max"])
# Wide enough that every negative violates it: each image and each text then has a gradient.
WIDE = 20.0


@READINGS
@NEGATIVES
@pytest.mark.parametrize("gradient", ["detached", "full"])
def test_hal_emnlp_contract(reading, negatives, gradient):
    params = emnlp.Params(margin=WIDE, reading=reading, negatives=negatives, gradient=gradient)
    check_contract(emnlp, params)
    check_masked_cells(emnlp, params)


@READINGS
@NEGATIVES
@settings(deadline=None)
@given(**BATCHES, k=st.integers(1, 9), margin=st.floats(0, 1), mask=st.booleans())
def test_hal_emnlp_equals_plain_loops(reading, negatives, pairs, seed, owners, k, margin, mask):
    batch = some_batch(pairs, seed, torch.tensor(owners[:pairs]), mask)
    loss = emnlp.loss(batch, emnlp.Params(margin=margin, k=k, reading=reading, negatives=negatives)).per_pair
    expected = naive.hal_emnlp(batch.scores.tolist(), margin, k, reading, negatives == "max", batch.same.tolist())
    torch.testing.assert_close(loss, torch.tensor(expected, dtype=torch.float64))


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
    ours = emnlp.loss(Scored.from_scores(scores), emnlp.Params(margin=0.2)).per_pair
    torch.testing.assert_close(ours, expected)
    assert (ours > 0).any()


@READINGS
def test_max_never_exceeds_sum(reading):
    batch = batch_of(*some_vectors(9, 3))
    hardest, every = (
        emnlp.loss(batch, emnlp.Params(margin=1.0, reading=reading, negatives=negatives)).per_pair
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
    emnlp.loss(Scored.from_scores(scores), emnlp.Params(margin=2.0)).total().backward()
    assert scores.grad[0, 2] > scores.grad[0, 1] > 0


@READINGS
@pytest.mark.parametrize("gradient", ["detached", "full"])
def test_gradient_flows_through_the_exponent_only_when_asked(reading, gradient):
    scores = some_scores(6, 4).requires_grad_()
    params = emnlp.Params(margin=WIDE, k=2, reading=reading, gradient=gradient)

    def share(scores):
        return emnlp.loss(Scored.from_scores(scores), params).per_pair

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
        hardest = emnlp.Params(negatives="max")
        total = emnlp.loss(batch, hardest).total().item()
        assert "plateau of 3.2" in emnlp.stuck(total, 8, hardest)
        assert emnlp.stuck(0.9 * total, 8, hardest) is None
        assert emnlp.stuck(total, 8, emnlp.Params()) is None


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
    everything, beyond = (emnlp.Params(k=k, reading=reading) for k in (len(batch.scores), 2**63))
    assert torch.equal(emnlp.loss(batch, beyond).per_pair, emnlp.loss(batch, everything).per_pair)


@pytest.mark.parametrize(("sign", "heavier"), [(1.0, True), (-1.0, False)])
def test_a_hub_weighs_more_among_positive_scores_and_less_among_negative_ones(sign, heavier):
    """Image 0 scores texts 1 and 2 alike; text 1 lies nearer to the other images."""
    scores = torch.full((4, 4), 0.5 * sign, dtype=torch.float64)
    scores[2:, 1] += 0.3
    hub, other = (scores * exponents(scores, torch.eye(4, dtype=torch.bool), 2, "A").exp())[0, 1:3]
    assert (hub > other) == heavier
