import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.report import hubness
from tests.naive import report as naive

COUNTS = st.lists(st.integers(0, 40), min_size=1, max_size=30)


@given(COUNTS)
@pytest.mark.parametrize("name", ["robin_hood", "gini", "hub_share"])
def test_equals_the_loops(name, n):
    assert getattr(hubness, name)(np.array(n)) == pytest.approx(getattr(naive, name)(n), abs=1e-12)


@given(COUNTS, st.integers(1, 7))
def test_histogram_equals_the_loops(n, width):
    assert hubness.histogram(np.array(n), width) == naive.histogram(n, width)


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
