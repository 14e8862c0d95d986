"""Mixtures of two beta or normal distributions against loops and libraries, and how well they find the mismatched."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from tests.naive import training as naive
from vse_pipe.train import mixture
from vse_pipe.train.mixture import auc


def _losses(low: int, high: int, seed: int = 0, shapes=((2.5, 12.0), (8.0, 4.0))) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 3.0 * np.concatenate([rng.beta(*shape, size) for shape, size in zip(shapes, (low, high), strict=True)])


def _gaussian_losses(low: int = 60, high: int = 30, apart: float = 0.4, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(0.2, 0.05, low), rng.normal(0.2 + apart, 0.1, high)])


def _falls(losses: np.ndarray, posterior: np.ndarray) -> bool:
    """No pair is cleaner than one of a lower loss."""
    return bool((np.diff(posterior[np.argsort(losses, kind="stable")]) <= 0).all())


def test_the_two_distributions_are_found_with_the_densities_of_scipy():
    found = mixture.fit_beta(_losses(3000, 1000))
    alpha, beta, weight = found.components
    assert not found.doubt
    np.testing.assert_allclose(weight, [0.75, 0.25], atol=0.02)
    assert np.all(np.diff(alpha / (alpha + beta)) > 0)
    clean = found.posterior > 0.5
    assert clean[:3000].mean() > 0.98
    assert clean[3000:].mean() < 0.05
    at = np.array([0.1, 0.4, 0.9])
    expected = [w * stats.beta(a, b).pdf(at) for a, b, w in zip(*found.components, strict=True)]
    np.testing.assert_allclose(np.exp(mixture.log_joint(found.components, at)), expected)


def test_em_is_that_of_the_plain_loops():
    losses = _losses(40, 20, seed=3)
    x = mixture.scaled(losses)
    found = mixture.beta_components(x, gain=-np.inf)
    *components, posterior = naive.fit(x.tolist(), naive.best_split(x.tolist()))
    np.testing.assert_allclose(mixture.chances(found, x), posterior, atol=1e-7)
    np.testing.assert_allclose(found, np.transpose(components), rtol=1e-6)


@settings(max_examples=20, deadline=None)
@given(arrays(np.float64, st.integers(2, 25), elements=st.floats(0, 1, width=16)).filter(lambda x: np.ptp(x) > 0))
def test_the_start_is_the_best_split(x):
    low, theirs = mixture.halves(x)[0] > 0.5, np.array(naive.best_split(x.tolist()))
    assert 0 < low.sum() < len(x)
    spent = [x[one].var() * one.sum() + x[~one].var() * (~one).sum() for one in (low, theirs)]
    assert spent[0] == pytest.approx(spent[1], abs=1e-9)


@pytest.mark.parametrize("fit", [mixture.fit_beta, mixture.fit_gaussian])
@pytest.mark.parametrize(("losses", "reason"), [(np.zeros(0), "fewer than 8"), (np.full(500, 0.3), "equal")])
def test_nothing_to_split_leaves_all_clean_and_says_why(fit, losses, reason):
    found = fit(losses)
    assert reason in found.doubt
    assert found.posterior.tolist() == [1.0] * len(losses)


@pytest.mark.parametrize(
    ("low", "high", "shapes"), [(2000, 2000, ((60, 240), (1.1, 1.1))), (1500, 2500, ((1.5, 2.5), (120, 110)))]
)
def test_densities_that_cross_twice_are_mended(low, high, shapes):
    """Clean losses in a heap away from 0, mismatched ones everywhere: the formula gives the lowest losses to the latter. Or
    mismatched ones in a heap, clean ones below it and, by their width, above: only those below are clean."""
    losses = _losses(low, high, shapes=shapes)
    mended = mixture.fit_beta(losses)
    literal = mixture.chances(mended.components, mixture.scaled(losses))
    lowest, highest = losses.argmin(), losses.argmax()
    if low == high:
        assert literal[lowest] < 0.5 < mended.posterior[lowest]
    else:
        assert mended.posterior[highest] < 0.5 < literal[highest]
        assert mended.posterior[lowest] > 0.99
    assert _falls(losses, mended.posterior)


@settings(max_examples=30, deadline=None)
@given(arrays(np.float64, st.integers(0, 60), elements=st.floats(0, 1e6)))
def test_whatever_the_losses_every_posterior_is_a_probability(losses):
    found = mixture.fit_beta(losses)
    assert found.posterior.shape == losses.shape
    assert ((found.posterior >= 0) & (found.posterior <= 1)).all()


def _scaled(losses: np.ndarray) -> np.ndarray:
    return (losses - losses.min()) / (losses.max() - losses.min())


@pytest.mark.parametrize(("apart", "seed"), [(0.1, 0), (0.1, 1), (0.25, 2), (0.25, 3), (0.6, 0), (0.6, 1)])
def test_gaussian_em_is_that_of_the_plain_loops(apart, seed):
    losses = _gaussian_losses(apart=apart, seed=seed)
    x = _scaled(losses).tolist()
    expected = naive.fit_normal(x, naive.best_split(x))
    np.testing.assert_allclose(mixture.fit_gaussian(losses).posterior, expected, atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=30))
def test_auc_is_the_share_of_ordered_pairs(points):
    score, wanted = np.array(points, float)[:, 0], np.array(points, float)[:, 1] > 0
    ordered = [(a > b) + 0.5 * (a == b) for a in score[wanted] for b in score[~wanted]]
    assert auc(score, wanted) == (pytest.approx(np.mean(ordered)) if ordered else None)
