import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.evaluate.metrics.hubness import occurrence, skewness
from tests.naive import evaluate as naive

counts = st.lists(st.integers(0, 50), min_size=1, max_size=40)


@given(counts)
def test_skewness_against_loops(values):
    assert skewness(np.array(values)) == pytest.approx(naive.skewness(values), abs=1e-9)


def test_by_hand():
    """One hub among four items: mean 1, deviations -1 -1 -1 3, skewness 6 / 3^1.5."""
    assert skewness(np.array([0, 0, 0, 4])) == pytest.approx(6 / 3**1.5)


def test_even_retrieval_has_no_skew():
    assert skewness(np.array([3, 3, 3])) == 0.0


@given(counts, st.integers(1, 5))
def test_scale_does_not_matter(values, factor):
    assert skewness(np.array(values) * factor) == pytest.approx(skewness(np.array(values)), abs=1e-9)


def test_items_nobody_retrieves_are_counted():
    assert occurrence(np.array([2, 0, 2, 2]), 5).tolist() == [1, 0, 3, 0, 0]
    assert occurrence(np.array([], np.int64), 3).tolist() == [0, 0, 0]
