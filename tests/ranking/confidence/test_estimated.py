import numpy as np
import pytest
from scipy.stats import beta

from vse_pipe.ranking.confidence.estimated import Excess, excess, interval


def test_the_excess_is_the_share_and_its_ends_those_of_clopper_and_pearson():
    found, exact = np.zeros(200, bool), np.zeros(200, bool)
    found[:12], exact[2:13] = True, True  # two too many, one too few
    one = excess(found, exact, 10_000)
    assert one.share == pytest.approx(0.5)
    each = 0.025 / 2
    assert one.high == pytest.approx(100 * (beta.ppf(1 - each, 3, 198) - beta.ppf(each, 1, 200)))
    assert one.low == pytest.approx(100 * (beta.ppf(each, 2, 199) - beta.ppf(1 - each, 2, 199)))


def test_where_all_queries_are_in_the_sample_nothing_is_in_doubt():
    found, exact = np.array([True, True, False]), np.array([True, False, False])
    assert excess(found, exact, 3) == Excess(100 / 3, 100 / 3, 100 / 3)


def test_ends_join_as_squares_and_stay_within_what_a_figure_can_be():
    assert interval(50.0, [47.0, 52.0], [Excess(1.0, 0.0, 5.0)]) == pytest.approx([44.0, 49 + 5**0.5])
    assert interval(99.9, [99.0, 100.0], [Excess(0.0, -2.0, 0.0)])[1] == 100.0
    assert interval(300.0, [290.0, 310.0], [], 600.0) == [290.0, 310.0]


def test_of_one_sample_the_ends_add_up():
    assert Excess(1.0, 0.5, 2.0) + Excess(0.0, -1.0, 1.0) == Excess(1.0, -0.5, 3.0)
