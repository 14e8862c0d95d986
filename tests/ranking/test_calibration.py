"""Calibration against loops, and on planted pairs of which the true probability is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import evaluate as naive
from vse_pipe.ranking.calibration import ISOTONIC, PLATT, fitted, reliability

PAIRS = st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=40)


def error(probabilities, matched) -> float:
    return reliability(probabilities, matched, np.arange(len(matched)))["ece"]


@given(PAIRS)
def test_error_and_bins_are_those_of_the_loop(pairs):
    probabilities, matched = (np.array(values) for values in zip(*pairs, strict=True))
    # A twentieth may fall on either side of a bin's edge by rounding.
    probabilities = np.minimum(probabilities / 20 + 1e-9, 1)
    figures = reliability(probabilities, matched, np.arange(len(pairs)))
    loop = naive.expected_calibration_error(probabilities.tolist(), matched.tolist())
    assert figures["ece"] == pytest.approx(loop, abs=1e-6)
    assert sum(entry["pairs"] for entry in figures["bins"]) == len(pairs)
    assert figures["brier"] == pytest.approx(((probabilities - matched) ** 2).mean(), abs=1e-6)


@given(PAIRS)
def test_isotonic_is_pooling_of_adjacent_violators(pairs):
    scores, matched = np.array([float(one) for one, _ in pairs]), np.array([two for _, two in pairs])
    curve, wanted = fitted(ISOTONIC, scores, matched), naive.isotonic(scores.tolist(), matched.tolist())
    np.testing.assert_allclose(curve(scores), [wanted[score] for score in scores], atol=1e-9)


@given(PAIRS, st.sampled_from([ISOTONIC, PLATT]))
def test_a_larger_score_is_never_less_sure(pairs, method):
    scores, matched = np.array([float(one) for one, _ in pairs]), np.array([two for _, two in pairs])
    found = fitted(method, scores, matched)(np.linspace(-5, 25, 50))
    assert (np.diff(found) >= -1e-12).all()
    assert ((found >= 0) & (found <= 1)).all()


def planted(rng, size=20_000):
    """Scores, the true probability of a match 1 / (1 + exp(-(12 s - 5))), and matches drawn by it."""
    scores = rng.uniform(-0.2, 1, size)
    truth = 1 / (1 + np.exp(-(12 * scores - 5)))
    return scores, truth, rng.random(size) < truth


@pytest.mark.parametrize(("method", "tolerance"), [(ISOTONIC, 0.06), (PLATT, 0.02)])
def test_a_planted_probability_is_found(method, tolerance):
    rng = np.random.default_rng(3)
    curve = fitted(method, *planted(rng)[::2])
    scores, truth, matched = planted(rng)
    found = curve(scores)
    assert np.abs(found - truth).mean() < tolerance / 3
    assert np.quantile(np.abs(found - truth), 0.99) < tolerance
    assert error(found, matched) < 0.01
    assert error(np.clip(scores, 0, 1), matched) > 0.1, "the scores themselves are no probabilities"


def test_the_interval_holds_a_planted_error():
    """All probabilities are 0.2 too large: the error is 0.2, whatever is drawn."""
    inside = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        truth = rng.uniform(0.05, 0.75, 400)
        matched = rng.random(400) < truth
        figures = reliability(truth + 0.2, matched, np.arange(400) // 2, 400, rng)
        low, high = figures["ece_interval"]
        inside += low <= 0.2 <= high
    assert inside >= 17


@pytest.mark.parametrize("matched", [True, False])
def test_platt_of_one_kind_of_pairs_is_never_certain(matched):
    curve = fitted(PLATT, np.array([0.1, 0.2, 0.3]), np.full(3, matched))
    assert ((curve(np.array([-1.0, 0.2, 2.0])) > 0) & (curve(np.array([-1.0, 0.2, 2.0])) < 1)).all()
