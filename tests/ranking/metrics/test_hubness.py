import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import evaluate as naive
from vse_pipe.ranking.metrics.hubness import anti_hubs, gini, hub_share, largest_hub, occurrence, robin_hood, skewness

counts = st.lists(st.integers(0, 50), min_size=1, max_size=40)


@given(counts)
def test_skewness_against_loops(values):
    assert skewness(np.array(values)) == pytest.approx(naive.skewness(values), abs=1e-9, nan_ok=True)


def test_by_hand():
    """One hub among four items: mean 1, deviations -1 -1 -1 3, skewness 6 / 3^1.5."""
    assert skewness(np.array([0, 0, 0, 4])) == pytest.approx(6 / 3**1.5)


def test_even_retrieval_leaves_skewness_undefined():
    assert np.isnan(skewness(np.array([3, 3, 3])))


@given(counts, st.integers(1, 5))
def test_scale_does_not_matter(values, factor):
    assert skewness(np.array(values) * factor) == pytest.approx(skewness(np.array(values)), abs=1e-9, nan_ok=True)


def test_items_nobody_retrieves_are_counted():
    assert occurrence(np.array([2, 0, 2, 2]), 5).tolist() == [1, 0, 3, 0, 0]
    assert occurrence(np.array([], np.int64), 3).tolist() == [0, 0, 0]


@given(counts)
def test_indices_against_loops(values):
    assert robin_hood(np.array(values)) == pytest.approx(naive.robin_hood(values), abs=1e-12)
    assert gini(np.array(values)) == pytest.approx(naive.gini(values), abs=1e-12)
    assert anti_hubs(np.array(values)) == pytest.approx(naive.anti_hubs(values))
    assert hub_share(np.array(values)) == pytest.approx(naive.hub_share(values), abs=1e-12)
    assert largest_hub(np.array(values)) == sorted(values)[-1]


@given(counts)
def test_indices_lie_between_0_and_1_and_robin_hood_below_gini(values):
    """Hoover: the largest distance of the Lorenz curve from the diagonal; Gini: twice the area between
    them."""
    assert 0 <= robin_hood(np.array(values)) <= gini(np.array(values)) + 1e-12
    assert gini(np.array(values)) <= 1


@given(counts.flatmap(st.permutations))
def test_the_order_of_items_does_not_matter(values):
    for index in (robin_hood, gini, anti_hubs, largest_hub, skewness):
        assert index(np.array(values)) == pytest.approx(index(np.array(sorted(values))), abs=1e-9, nan_ok=True)


def test_one_hub_takes_all():
    """Three of four items lack a quarter of all places each; Gini of one owner among n is (n - 1) / n."""
    one = np.array([0, 8, 0, 0])
    assert (robin_hood(one), gini(one), anti_hubs(one), largest_hub(one)) == (0.75, 0.75, 0.75, 8)


@pytest.mark.parametrize(("values", "unused"), [([3, 3, 3], 0.0), ([7], 0.0), ([0, 0], 1.0)])
def test_constant_counts_are_even(values, unused):
    even = np.array(values)
    assert (robin_hood(even), gini(even), anti_hubs(even)) == (0.0, 0.0, unused)
    assert largest_hub(even) == values[0]


@given(counts, st.integers(1, 5))
def test_indices_do_not_depend_on_the_scale(values, factor):
    for index in (robin_hood, gini, anti_hubs):
        assert index(np.array(values) * factor) == pytest.approx(index(np.array(values)), abs=1e-12)
