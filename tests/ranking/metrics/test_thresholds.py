import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ranking.dense import matrices
from vse_pipe.ranking.metrics.listed import by_tensors, compiled, counts

few_values = matrices(elements=st.integers(-2, 2).map(float))
DTYPES = [torch.float32, torch.float64, torch.float16]
WAYS = [(way, dtype) for way in (by_tensors, compiled) for dtype in DTYPES if (way, dtype) != (compiled, torch.float16)]


@pytest.mark.parametrize(("counted", "dtype"), WAYS)
def test_against_loops(counted, dtype):
    @settings(deadline=None)
    @given(few_values, st.data(), st.booleans())
    def check(scores, data, strictly):
        some = st.lists(st.integers(-3, 3).map(float), max_size=4)
        wanted = [data.draw(some) for _ in scores]
        starts = np.cumsum([0, *[len(own) for own in wanted]])
        block = torch.from_numpy(scores).to(dtype)
        thresholds = np.array([level for own in wanted for level in own], block.numpy().dtype)
        expected = [
            sum(1 for score in row if score > level or (score == level and not strictly))
            for row, own in zip(scores.tolist(), wanted, strict=True)
            for level in own
        ]
        found, finite = counted(block, starts, thresholds, strictly)
        assert (found.tolist(), finite) == (expected, True)

    check()


@pytest.mark.parametrize(("counted", "dtype"), WAYS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_value_that_is_not_finite_is_noticed_anywhere(counted, dtype, bad):
    for row, column in [(0, 0), (1, 17), (2, 36)]:
        scores = torch.zeros(3, 37, dtype=dtype)
        scores[row, column] = bad
        level = np.zeros(1, scores.numpy().dtype)
        assert not counted(scores, np.array([0, 0, 1, 1]), level, True)[1]
        scores[row, column] = torch.finfo(dtype).max
        assert counted(scores, np.array([0, 0, 1, 1]), level, True)[1]


@pytest.mark.parametrize(("counted", "dtype"), WAYS)
def test_zero_has_no_sign_and_the_smallest_numbers_count(counted, dtype):
    tiny = torch.finfo(dtype).smallest_normal / 2
    scores = torch.tensor([[0.0, -0.0, tiny, -tiny]], dtype=dtype)
    level = np.zeros(1, scores.numpy().dtype)
    assert counted(scores, np.array([0, 1]), level, False)[0].tolist() == [3]
    assert counted(scores, np.array([0, 1]), level, True)[0].tolist() == [1]


def test_a_block_may_be_a_view():
    whole = torch.arange(12.0).reshape(3, 4)
    thresholds, starts = np.array([5.0, 9.0], np.float32), np.array([0, 0, 1, 1, 2])
    for counted in (by_tensors, compiled):
        assert counted(whole.T, starts, thresholds, False)[0].tolist() == [2, 1]


def test_long_rows_with_hundreds_of_thresholds():
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 5000, (3, 20_011)).astype(np.float32)
    starts = np.array([0, 300, 301, 700])
    thresholds = rng.integers(0, 5000, 700).astype(np.float32)
    rows = np.repeat(np.arange(3), np.diff(starts))
    expected = np.array([(scores[row] >= level).sum() for row, level in zip(rows, thresholds, strict=True)])
    for counted in (by_tensors, compiled):
        found = counted(torch.from_numpy(scores), starts, thresholds, False)[0]
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("rows", [3, 700])
def test_small_and_large_blocks_of_every_type(rows):
    scores = np.random.default_rng(1).integers(0, 9, (rows, 400)).astype(np.float16)
    expected = (scores >= scores[:, :1]).sum(axis=1)
    for dtype in DTYPES:
        block = torch.from_numpy(scores).to(dtype)
        found, finite = counts(block, np.arange(rows + 1), block[:, 0].numpy(), False)
        assert finite
        np.testing.assert_array_equal(found, expected)
