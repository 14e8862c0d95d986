"""Calibration against loops, and on planted pairs of which the true probability is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import evaluate as naive
from vse_pipe.ranking.calibration import BINS, ISOTONIC, PLATT, ece_draws, fitted, reliability

PAIRS = st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=40)


@given(PAIRS)
def test_error_and_bins_are_those_of_the_loop(pairs):
    probabilities, matched = np.array([one for one, _ in pairs]) / 20, np.array([two for _, two in pairs])
    found = reliability(probabilities, matched)
    # 0.3 * 10 is 3 and 6 / 20 * 10 is 3: places in bins are compared in the loop by the same floats only up to rounding
    edges = np.isclose(probabilities * BINS, np.round(probabilities * BINS))
    inside = np.where(edges, np.minimum(probabilities + 1e-9, 1), probabilities)
    wanted = naive.expected_calibration_error(inside.tolist(), matched.tolist())
    assert reliability(inside, matched).ece == pytest.approx(wanted, abs=1e-7)
    assert found.counts.sum() == len(pairs)
    assert found.brier == pytest.approx(np.mean([(p - y) ** 2 for p, y in zip(probabilities, matched, strict=True)]))
    assert np.isnan(found.shares[found.counts == 0]).all()


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
    assert reliability(found, matched).ece < 0.01
    assert reliability(np.clip(scores, 0, 1), matched).ece > 0.1, "the scores themselves are no probabilities"


def test_the_interval_holds_a_planted_error():
    """Everything is told to be 0.2 surer than it is: the error is 0.2, whatever is drawn."""
    inside = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        truth = rng.uniform(0.05, 0.75, 400)
        matched, told = rng.random(400) < truth, truth + 0.2
        draws = ece_draws(told, matched, np.arange(400) // 2, 400, rng)
        low, high = np.quantile(draws - np.median(draws) + reliability(told, matched).ece, [0.025, 0.975])
        inside += low <= 0.2 <= high
    assert inside >= 17


def test_a_draw_is_the_error_of_the_pairs_it_repeats():
    rng = np.random.default_rng(1)
    told, matched, clusters = rng.random(60), rng.random(60) < 0.5, np.repeat(np.arange(12), 5)
    draws = ece_draws(told, matched, clusters, 70, np.random.default_rng(2))
    rng = np.random.default_rng(2)
    for start in (0, 64):
        times = rng.multinomial(12, np.full(12, 1 / 12), 64 if not start else 6)
        for place, drawn in enumerate(times, start=start):
            repeated = np.repeat(np.arange(60), drawn[clusters])
            assert draws[place] == pytest.approx(reliability(told[repeated], matched[repeated]).ece)


@pytest.mark.parametrize("matched", [True, False])
def test_platt_of_one_kind_of_pairs_is_never_certain(matched):
    curve = fitted(PLATT, np.array([0.1, 0.2, 0.3]), np.full(3, matched))
    assert ((curve(np.array([-1.0, 0.2, 2.0])) > 0) & (curve(np.array([-1.0, 0.2, 2.0])) < 1)).all()
