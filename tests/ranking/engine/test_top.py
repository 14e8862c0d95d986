import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tests.naive import evaluate as naive
from vse_pipe.ranking.scores import Scores
from vse_pipe.ranking.tiles import mean_of_top, top_k

few_values = arrays(
    np.float64, array_shapes(min_dims=2, max_dims=2, max_side=12), elements=st.integers(0, 3).map(float)
)


@settings(deadline=None)
@given(few_values, st.integers(1, 15))
def test_ties_go_to_the_lowest_index(scores, k):
    values, columns = top_k(torch.from_numpy(scores), k)
    assert columns.tolist() == [naive.top(row, k) for row in scores.tolist()]
    assert torch.equal(values, torch.from_numpy(scores).gather(1, columns))


def test_equal_scores_throughout_give_the_first_items():
    _, columns = top_k(torch.zeros(3, 2000), 10)
    assert columns.tolist() == [list(range(10))] * 3


def test_long_lists_with_few_values():
    scores = torch.from_numpy(np.random.default_rng(0).integers(0, 5, (2, 3000)).astype(np.float64))
    _, columns = top_k(scores, 2000)
    assert columns.tolist() == [naive.top(row, 2000) for row in scores.tolist()]


def test_rows_without_ties_are_plain_top_k():
    scores = torch.from_numpy(np.random.default_rng(0).standard_normal((50, 300)))
    values, columns = top_k(scores, 10)
    assert torch.equal(values, scores.topk(10).values)
    assert torch.equal(columns, scores.topk(10).indices)


def test_absent_entries_come_last_and_do_not_disturb_the_others():
    scores = torch.tensor([[2.0, -torch.inf, 1.0, 1.0, -torch.inf]])
    values, columns = top_k(scores, 4)
    assert columns[0, :3].tolist() == [0, 2, 3]
    assert values[0].tolist() == [2.0, 1.0, 1.0, -torch.inf]


@settings(deadline=None)
@given(few_values, st.integers(1, 15))
def test_mean_of_top_takes_what_there_is(scores, k):
    expected = [np.mean(sorted(row, reverse=True)[:k]) for row in scores.tolist()]
    np.testing.assert_allclose(mean_of_top(Scores.dense(torch.from_numpy(scores)), k), expected)


@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize("levels", [1, 3, 50, 10**6])
def test_the_compiled_loop_keeps_to_the_priority(levels, precision):
    """Long rows and long lists; with one level every score is the same."""
    rng = np.random.default_rng(0)
    scores = rng.integers(0, levels, (3, 5000)).astype(precision)
    priority = rng.permutation(5000)
    values, columns = top_k(torch.from_numpy(scores), 200, priority)
    for row, found, kept in zip(scores, columns.numpy(), values.numpy(), strict=True):
        expected = np.lexsort((priority, -row))[:200]
        assert found.tolist() == expected.tolist()
        assert kept.tolist() == row[expected].tolist()


def test_ties_throughout_a_long_row_take_no_time():
    started = time.perf_counter()
    top_k(torch.zeros(20, 25_000), 128, np.random.default_rng(0).permutation(25_000))
    assert time.perf_counter() - started < 2
