from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import stages as naive
from vse_pipe.report import charts
from vse_pipe.report.sections import hubness


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=30))
def test_log_histogram_equals_the_loops(n):
    assert charts.log_histogram(np.array(n)) == naive.log_histogram(n)


def test_bins_of_the_log_histogram_leave_no_gap_and_grow():
    edges = charts.log_edges(3000)
    assert edges[:7] == [1, 2, 3, 4, 6, 8, 11]
    assert edges[-1] > 3000
    assert all(high <= 1.25 * low + 1 for low, high in pairwise(edges))


@given(st.lists(st.lists(st.integers(0, 6), max_size=4, unique=True), min_size=1, max_size=12), st.integers(1, 5))
def test_attracted_equals_the_loops(lists, limit):
    found = hubness.attracted(pa.array(lists, pa.list_(pa.int64())), [0, 3], limit)
    for item in (0, 3):
        rows = naive.attracted(lists, item)
        assert found[item] == (rows[:limit], len(rows))


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        ([4, 4, 4, 4], hubness.Hubness(0.0, 0.0, 0.0, 0.0, 4)),
        ([16, 0, 0, 0], hubness.Hubness(0.75, 0.75, 0.75, 1.0, 16)),
        ([0, 0], hubness.Hubness(0.0, 0.0, 1.0, 0.0, 0)),
    ],
)
def test_extremes(n, expected):
    items = pd.DataFrame({"fold": 0, "n_10": n})
    assert hubness.measure(items, 10) == expected


def test_folds_are_measured_apart_and_averaged():
    even, uneven = [3, 3, 3, 3], [12, 0, 0, 0]
    items = pd.DataFrame({"fold": [0] * 4 + [1] * 4, "n_10": even + uneven})
    found = hubness.measure(items, 10)
    assert found.gini == pytest.approx((0 + 0.75) / 2)
    assert found.largest == 12
