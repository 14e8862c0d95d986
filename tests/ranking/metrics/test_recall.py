from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import evaluate as naive
from vse_pipe.ranking.metrics.recall import chance, hits_at, mean_rank, median_rank, recall

some_ranks = st.lists(st.integers(0, 20).map(float), min_size=1, max_size=30)


@given(some_ranks, st.sampled_from([1, 5, 10]))
def test_against_loops(ranks, k):
    values = np.array(ranks)
    assert recall(hits_at(values, k)) == pytest.approx(naive.recall(ranks, k))
    assert median_rank(values) == naive.median_rank(ranks)
    assert mean_rank(values) == pytest.approx(naive.mean_rank(ranks))


def test_by_hand():
    ranks = np.array([0.0, 0.0, 1.0, 4.0, 5.0, 9.0, 10.0, 99.0])
    assert [recall(hits_at(ranks, k)) for k in (1, 5, 10)] == [25.0, 50.0, 75.0]
    assert median_rank(ranks) == 5.0
    assert mean_rank(ranks) == 17.0


def test_the_median_between_two_ranks_rounds_down():
    assert median_rank(np.array([0.0, 1.0])) == 1.0
    assert median_rank(np.array([1.0, 2.0])) == 2.0


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(6, 9), st.sampled_from([1, 2, 5, 10]))
def test_chance_is_the_share_of_all_ways_to_take_k_items(correct, items, k):
    shares = []
    for count in correct:
        ways = list(combinations(range(items), min(k, items)))
        shares.append(sum(min(way) < count for way in ways) / len(ways))
    assert chance(np.array(correct), items, k) == pytest.approx(100 * np.mean(shares))
