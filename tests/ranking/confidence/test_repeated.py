"""Intervals of a method over seeds and images: against loops over pairs of seeds, and where the answer is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.benchmarks import coverage
from tests.naive import confidence as naive
from tests.ranking import ranked
from vse_pipe.ranking.comparison import Repetitions, of_difference, of_one, repetitions, spreads
from vse_pipe.ranking.intervals import Figures, sample


def _drawn(rng: np.random.Generator, seeds: int, draws: int = 12, images: float = 1.0) -> Repetitions:
    together = images * rng.standard_normal(draws)
    return Repetitions(rng.normal(50, 2, seeds), 50 + together + rng.standard_normal((seeds, draws)))


@settings(deadline=None, max_examples=20)
@given(seeds=st.integers(2, 6), seed=st.integers(0, 10_000), images=st.sampled_from([0.0, 1.0, 5.0]))
def test_the_variance_is_that_of_all_pairs_of_seeds(seeds, seed, images):
    one = _drawn(np.random.default_rng(seed), seeds, images=images)
    between, of_images = naive.variance_of_mean(one.values.tolist(), one.draws.tolist())
    found = of_one(one)
    assert found.error**2 == pytest.approx(between + of_images)
    assert found.freedom == pytest.approx((seeds - 1) * (between + of_images) / between)
    low, high = stats.t.interval(0.9, found.freedom, loc=one.values.mean(), scale=found.error)
    assert found.interval(0.9) == pytest.approx([low, high])


@settings(deadline=None, max_examples=20)
@given(of_a=st.integers(2, 5), of_b=st.integers(2, 5), seed=st.integers(0, 10_000))
def test_methods_with_seeds_of_their_own_share_the_images(of_a, of_b, seed):
    rng = np.random.default_rng(seed)
    a, b = _drawn(rng, of_a), _drawn(rng, of_b)
    parts = naive.variance_of_difference(a.values.tolist(), a.draws.tolist(), b.values.tolist(), b.draws.tolist())
    found, (between_a, between_b, images) = of_difference(a, b), parts
    assert found.mean == pytest.approx(b.values.mean() - a.values.mean())
    assert found.error**2 == pytest.approx(sum(parts))
    welch = (between_a + between_b) ** 2 / (between_a**2 / (of_a - 1) + between_b**2 / (of_b - 1))
    assert found.freedom == pytest.approx(welch * (between_a + between_b + images) / (between_a + between_b))


@settings(deadline=None, max_examples=20)
@given(seeds=st.integers(2, 6), seed=st.integers(0, 10_000), level=st.floats(0.5, 0.999))
def test_the_p_value_says_what_the_interval_says(seeds, seed, level):
    rng = np.random.default_rng(seed)
    found = of_one(_drawn(rng, seeds) - _drawn(rng, seeds))
    low, high = found.interval(level)
    assert (found.p_value() < 1 - level) == (not low <= 0 <= high)


def test_without_chance_in_the_images_it_is_the_t_test():
    values = np.array([10.0, 12.0, 11.0, 14.0])
    found = of_one(Repetitions(values, np.repeat(values[:, None], 5, axis=1)))
    expected = stats.ttest_1samp(values, 0)
    assert found.p_value() == pytest.approx(expected.pvalue)
    assert found.interval() == pytest.approx(list(expected.confidence_interval()))
    other = np.array([9.0, 9.5, 13.0])
    of_two = of_difference(
        Repetitions(other, np.repeat(other[:, None], 5, axis=1)), Repetitions(values, np.ones((4, 5)))
    )
    welch = stats.ttest_ind(values, other, equal_var=False)
    assert (of_two.p_value(), of_two.freedom) == (pytest.approx(welch.pvalue), pytest.approx(welch.df))


def test_equal_seeds_leave_the_images_and_a_normal_quantile():
    draws = np.random.default_rng(0).normal(5, 2, 4000)
    found = of_one(Repetitions(np.full(3, 5.0), np.stack([draws] * 3)))
    assert (found.error, found.freedom) == (pytest.approx(draws.std(ddof=1)), np.inf)
    assert found.interval()[1] - 5 == pytest.approx(1.96 * found.error, rel=1e-4)


def test_no_chance_at_all_is_a_point():
    same, other = (Repetitions(np.full(3, value), np.full((3, 9), value)) for value in (50.0, 51.0))
    assert (of_one(same - same).interval(), of_one(same - same).p_value()) == ([0.0, 0.0], 1.0)
    assert (of_one(other - same).interval(), of_one(other - same).p_value()) == ([1.0, 1.0], 0.0)


def test_all_figures_of_a_method_by_address():
    evaluations = [Figures.of(*ranked.tables(30, seed=seed)) for seed in range(3)]
    found, samples = spreads(evaluations, 50, 7), sample(evaluations, 50, 7)
    assert set(found) == set(evaluations[0].estimate())
    rsums = [one.estimate()["rsum",] for one in evaluations]
    between, images = naive.variance_of_mean(rsums, [one["rsum",].tolist() for one in samples])
    assert (found["rsum",].mean, found["rsum",].error) == pytest.approx((np.mean(rsums), (between + images) ** 0.5))
    matched = [Figures.of(*ranked.tables(30, seed=seed, matching=seed > 0)) for seed in range(2)]
    assert ("hs_sum",) not in repetitions(matched, sample(matched, 9, 1)), "a figure that one seed lacks"


@pytest.mark.acceptance
def test_simulated_coverage():
    """A short run of tests/benchmarks/coverage.py, whose long one docs/comparisons.md sums up: no worse than chance makes it."""
    options = coverage.options(["--simulations", "150", "--draws", "100"])
    world = coverage.World("quick", 100, 0.15, 0.6, 0.3, 0.1)
    ours, plain = coverage.inside(world, options)
    assert ours.min() > 0.88, ours
    assert plain[:, 0].min() < 0.88, "percentiles of 3 drawn seeds are no remedy"
