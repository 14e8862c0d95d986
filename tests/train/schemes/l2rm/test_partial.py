import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import transport as naive
from vse_pipe.core.errors import InputError
from vse_pipe.train.schemes.l2rm import partial
from vse_pipe.train.schemes.l2rm.partial import partial_plan

with warnings.catch_warnings():
    # Python warns of escapes in POT's texts when it first compiles them, and here a warning is an error.
    warnings.simplefilter("ignore")
    import ot


def _cost(rows: int, columns: int | None = None, seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(scale * rng.random((rows, columns or rows)))


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(2, 9),
    seed=st.integers(0, 50),
    mass=st.sampled_from([0.05, 0.1, 0.5, 0.9]),
    reg=st.sampled_from([0.01, 0.07, 0.5]),
    mask=st.booleans(),
)
def test_the_plan_is_that_of_the_plain_loops_at_the_same_stop(n, seed, mass, reg, mask):
    cost = _cost(n, seed=seed)
    found = partial_plan(cost, mass, reg, mask)
    expected = naive.partial_plan(cost.tolist(), mass, reg, mask)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-8)


def _pot(cost: np.ndarray, mass: float, reg: float) -> np.ndarray:
    """The POT library on the problem with dummies."""
    n = len(cost)
    extended = np.full((n + 1, n + 1), 100 * cost.max())
    extended[:n, :n] = cost
    extended[n, n] = 201 * cost.max()
    margin = np.append(np.full(n, 1 / n), 1 - mass)
    plan = ot.bregman.sinkhorn_log(margin, margin, extended, reg, numItermax=20_000, stopThr=1e-12)
    return plan[:n, :n]


@pytest.mark.parametrize(("n", "reg"), [(8, 0.07), (40, 0.01), (128, 0.01), (128, 0.07)])
def test_a_tight_plan_is_that_of_the_pot_library(n, reg):
    cost = _cost(n, seed=n)
    found = partial_plan(cost, 0.1, reg, mask=False, tolerance=1e-11, max_iterations=20_000)
    np.testing.assert_allclose(found.numpy(), _pot(cost.numpy(), 0.1, reg), atol=1e-8)
    assert float(found.sum()) == pytest.approx(0.1, abs=1e-6)


def test_a_tight_masked_plan_is_that_of_the_pot_library_where_the_diagonal_is_dear():
    cost = _cost(12)
    found = partial_plan(cost, 0.3, 0.05, mask=True, tolerance=1e-11, max_iterations=20_000)
    dear = cost.clone().fill_diagonal_(float(cost.max()) * 99)
    even = np.append(np.full(12, 1 / 12), 0.7)
    extended = np.full((13, 13), 100 * float(cost.max()))
    extended[:12, :12] = dear
    extended[12, 12] = 201 * float(cost.max())
    expected = ot.bregman.sinkhorn_log(even, even, extended, 0.05, numItermax=20_000, stopThr=1e-12)
    np.testing.assert_allclose(found.numpy(), expected[:12, :12], atol=1e-8)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("reg", [0.01, 0.07])
def test_pot_s_own_partial_transport_is_near(reg):
    """It has no dummies, whose mass counts in the entropy here: not the same problem, and at 128 pairs nearly."""
    cost = _cost(128, seed=1).numpy()
    even = np.full(128, 1 / 128)
    found = partial_plan(torch.from_numpy(cost), 0.1, reg, mask=False, tolerance=1e-10, max_iterations=20_000)
    theirs = ot.partial.entropic_partial_wasserstein(even, even, cost, reg, m=0.1, numItermax=5000)
    assert np.abs(found.numpy() - theirs).max() < 3e-4
    assert (found.numpy() * cost).sum() == pytest.approx((theirs * cost).sum(), rel=0.05)


def test_with_less_entropy_the_cost_falls_to_that_of_the_linear_programme():
    cost = _cost(15, seed=4).numpy()
    even = np.full(15, 1 / 15)
    least = (ot.partial.partial_wasserstein(even, even, cost, m=0.4) * cost).sum()
    spent = [
        (partial_plan(torch.from_numpy(cost), 0.4, reg, False, 1e-9, 100_000).double().numpy() * cost).sum()
        for reg in (0.1, 0.01, 0.001)
    ]
    assert spent == sorted(spent, reverse=True)
    assert spent[-1] == pytest.approx(least, rel=0.02)


def test_nothing_moves_on_a_masked_diagonal_and_marginals_are_kept():
    plan = partial_plan(_cost(20), mass=0.4, regularisation=0.05, tolerance=1e-10).double()
    assert (plan.diagonal() == 0).all()
    assert (plan >= 0).all()
    for axis in (0, 1):
        assert (plan.sum(dim=axis) <= 1 / 20 + 1e-7).all()
    assert plan.sum() == pytest.approx(0.4, abs=1e-6)


def test_the_loose_default_moves_too_much_at_a_small_regularisation():
    cost = torch.from_numpy(1 - np.random.default_rng(0).random((128, 128)))
    assert 0.101 < float(partial_plan(cost, 0.1, 0.01).sum()) < 0.12
    assert float(partial_plan(cost, 0.1, 0.01, tolerance=1e-8).sum()) == pytest.approx(0.1, abs=1e-5)


def test_all_of_the_mass_is_plain_transport():
    cost = _cost(10, seed=2)
    even = np.full(10, 0.1)
    found = partial_plan(cost, 1.0, 0.05, mask=False, tolerance=1e-11, max_iterations=20_000)
    expected = ot.sinkhorn(even, even, cost.numpy(), 0.05, numItermax=20_000, stopThr=1e-14)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-8)
    masked = partial_plan(cost, 1.0, 0.05, mask=True)
    assert torch.isfinite(masked).all()
    assert (masked.diagonal() == 0).all()


def test_cheap_cells_get_the_mass():
    cost = torch.full((6, 6), 1.0)
    cost[2, 4] = cost[5, 1] = 0.05
    plan = partial_plan(cost, mass=0.3, regularisation=0.01, tolerance=1e-9)
    assert float(plan[2, 4]) == pytest.approx(1 / 6 * 0.9, rel=0.15)
    assert float(plan[2, 4] + plan[5, 1]) > 0.27


@pytest.mark.parametrize(("scale", "reg"), [(1e4, 0.01), (300.0, 0.01)])
def test_costs_far_beyond_float64_s_exponents_fall_back_to_logarithms(scale, reg):
    cost = _cost(7, scale=scale)
    found = partial_plan(cost, 0.2, reg)
    assert torch.isfinite(found).all()
    np.testing.assert_allclose(found.numpy(), naive.partial_plan(cost.tolist(), 0.2, reg, True), atol=1e-7)


def test_both_ways_of_iterating_agree():
    for n, reg in [(16, 0.01), (40, 0.07)]:
        problem = partial._extended(_cost(n, seed=n).numpy(), 0.1, True)
        fast = partial._scaled(*problem, reg, 1e-3, 1000)
        slow = partial._logarithmic(*problem, reg, 1e-3, 1000)
        np.testing.assert_allclose(fast, slow, atol=1e-10)


def test_images_and_captions_may_differ_in_number():
    plan = partial_plan(_cost(5, 9), 0.2, 0.05, mask=False, tolerance=1e-10)
    assert plan.shape == (5, 9)
    assert plan.sum() == pytest.approx(0.2, abs=1e-5)


def test_iterations_end_at_the_limit():
    loose, tight = (partial_plan(_cost(9), max_iterations=limit) for limit in (1, 1000))
    assert not torch.allclose(loose, tight)


@pytest.mark.parametrize(
    ("cost", "reason"),
    [(torch.full((3, 3), float("nan")), "finite"), (-torch.ones(3, 3), "at least 0"), (torch.ones(1, 1), "at least 2")],
)
def test_what_is_no_cost_is_refused(cost, reason):
    with pytest.raises(InputError, match=reason):
        partial_plan(cost)


def test_a_cost_of_nothing_gives_an_even_plan():
    """The end that the cost network must not reach: dummies cost nothing either, and all images are alike."""
    plan = partial_plan(torch.zeros(4, 4), mask=False)
    assert plan.shape == (4, 4)
    assert float(plan.max() - plan.min()) < 1e-7


def test_no_gradient_passes_and_the_type_is_float32():
    cost = _cost(4).requires_grad_()
    plan = partial_plan(cost)
    assert plan.dtype == torch.float32
    assert not plan.requires_grad
