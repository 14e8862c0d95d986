"""Calibration against loops, and on planted pairs of which the true probability is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import evaluate as naive
from vse_pipe.ranking.calibration import fitted, reliability

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
    knots, wanted = fitted(scores, matched), naive.isotonic(scores.tolist(), matched.tolist())
    np.testing.assert_allclose(np.interp(scores, *knots), [wanted[score] for score in scores], atol=1e-9)


def planted(rng, size=20_000):
    """Scores, the true probability of a match 1 / (1 + exp(-(12 s - 5))), and matches drawn by it."""
    scores = rng.uniform(-0.2, 1, size)
    truth = 1 / (1 + np.exp(-(12 * scores - 5)))
    return scores, truth, rng.random(size) < truth


def test_a_planted_probability_is_found():
    rng = np.random.default_rng(3)
    knots = fitted(*planted(rng)[::2])
    scores, truth, matched = planted(rng)
    found = np.interp(scores, *knots)
    assert np.abs(found - truth).mean() < 0.02
    assert np.quantile(np.abs(found - truth), 0.99) < 0.06
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
