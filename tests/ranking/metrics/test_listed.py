import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import evaluate as naive
from tests.ranking.dense import matrices
from vse_pipe.core.errors import InputError
from vse_pipe.ranking.metrics import graded as module
from vse_pipe.ranking.metrics.graded import counts, positions
from vse_pipe.ranking.metrics.recall import Truth, best_ranks

# Sizes below which blocks are counted by tensors: none, and all.
COMPILED, TENSORS = -1, 1 << 60
POLICIES = ["pessimistic", "average", "optimistic"]
few_values = matrices(elements=st.integers(0, 3).map(float))


def truths(scores: np.ndarray) -> st.SearchStrategy[list[list[int]]]:
    """One correct item to all of them, a different number for each query."""
    some = st.sets(st.integers(0, scores.shape[1] - 1), min_size=1).map(sorted)
    return st.lists(some, min_size=len(scores), max_size=len(scores))


def found(scores: np.ndarray, correct: list, ties: str, dtype=torch.float64) -> list[float]:
    truth = Truth.listed([np.array(items) for items in correct], scores.shape[1])
    return positions(torch.from_numpy(scores).to(dtype), slice(0, len(scores)), truth, ties).tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("ties", POLICIES)
def test_against_loops(ties, dtype):
    @settings(deadline=None)
    @given(few_values, st.data())
    def check(scores, data):
        correct = data.draw(truths(scores))
        rows = zip(scores.tolist(), correct, strict=True)
        expected = [place for row, items in rows for place in naive.positions(row, set(items), ties)]
        assert found(scores, correct, ties, dtype) == expected

    check()


@pytest.mark.parametrize("ties", POLICIES)
def test_the_path_of_other_devices_gives_the_same(ties, monkeypatch):
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 40, (30, 200)).astype(np.float32)
    correct = [rng.choice(200, size=rng.integers(1, 150), replace=False) for _ in scores]
    monkeypatch.setattr(module, "_SMALL", COMPILED)
    expected = found(scores, correct, ties, torch.float32)
    monkeypatch.setattr(module, "_SMALL", TENSORS)
    assert found(scores, correct, ties, torch.float32) == expected


@settings(deadline=None)
@given(few_values, st.data(), st.sampled_from(POLICIES))
def test_the_first_is_the_rank_of_the_best_and_none_is_held_twice(scores, data, ties):
    correct = data.draw(truths(scores))
    truth = Truth.listed([np.array(items) for items in correct], scores.shape[1])
    places = np.array(found(scores, correct, ties))
    best = best_ranks(torch.from_numpy(scores), slice(0, len(scores)), truth, ties)
    np.testing.assert_array_equal(places[truth.starts[:-1]], best)
    for own in np.split(places, truth.starts[1:-1]):
        assert (np.diff(own) >= 1).all()
        assert (own >= np.arange(len(own))).all()
        assert own[-1] <= scores.shape[1] - 1


@settings(deadline=None)
@given(few_values, st.data(), st.sampled_from(POLICIES))
def test_the_order_of_items_does_not_matter(scores, data, ties):
    correct = data.draw(truths(scores))
    order = np.array(data.draw(st.permutations(range(scores.shape[1]))))
    moved = [np.flatnonzero(np.isin(order, items)) for items in correct]
    assert found(scores[:, order], moved, ties) == found(scores, correct, ties)


@pytest.mark.parametrize(
    ("ties", "expected"),
    [("pessimistic", [1.0, 5.0, 6.0]), ("average", [1.0, 4.0, 5.0]), ("optimistic", [1.0, 3.0, 4.0])],
)
def test_by_hand(ties, expected):
    """Wrong 9, correct 8, wrong 7, then a tie at 5 of two wrong and two correct items, wrong 1."""
    assert found(np.array([[5.0, 9, 5, 8, 7, 5, 1, 5]]), [[0, 2, 3]], ties) == expected


@pytest.mark.parametrize(
    ("ties", "expected"), [("pessimistic", [8.0, 9.0]), ("average", [4.0, 5.0]), ("optimistic", [0.0, 1.0])]
)
def test_a_collapsed_model_gets_no_credit_unless_asked(ties, expected):
    assert found(np.zeros((1, 10)), [[2, 7]], ties) == expected


def test_the_block_may_start_anywhere():
    truth = Truth.listed([np.array([0]), np.array([1, 2]), np.array([0, 2])], 3)
    scores = torch.tensor([[0.1, 0.9, 0.5], [0.9, 0.1, 0.5]])
    assert positions(scores, slice(1, 3), truth, "pessimistic").tolist() == [0.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("small", [COMPILED, TENSORS])
@pytest.mark.parametrize("ties", POLICIES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_refused(bad, ties, small, monkeypatch):
    monkeypatch.setattr(module, "_SMALL", small)
    for row, column in [(0, 0), (1, 0), (1, 1)]:
        scores = np.array([[0.1, 0.2], [0.4, 0.3]])
        scores[row, column] = bad
        with pytest.raises(InputError, match="scores of queries 0 to 1 hold NaN or infinite values"):
            found(scores, [[0], [0]], ties)


def test_a_query_without_a_correct_item_is_refused():
    truth = Truth.listed([np.array([0]), np.array([1]), np.array([], np.int64)], 2)
    with pytest.raises(InputError, match="query 2 has no correct item"):
        positions(torch.zeros(2, 2), slice(1, 3), truth, "pessimistic")


thresholds_few_values = matrices(elements=st.integers(-2, 2).map(float))
DTYPES = [torch.float32, torch.float64, torch.float16]
WAYS = [(COMPILED, torch.float32), (COMPILED, torch.float64), *((TENSORS, dtype) for dtype in DTYPES)]


@pytest.mark.parametrize(("small", "dtype"), WAYS)
def test_thresholds_against_loops(small, dtype, monkeypatch):
    monkeypatch.setattr(module, "_SMALL", small)

    @settings(deadline=None)
    @given(thresholds_few_values, st.data(), st.booleans())
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
        found, finite = counts(block, starts, thresholds, strictly)
        assert (found.tolist(), finite) == (expected, True)

    check()


@pytest.mark.parametrize(("small", "dtype"), WAYS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_value_that_is_not_finite_is_noticed_anywhere(small, dtype, bad, monkeypatch):
    monkeypatch.setattr(module, "_SMALL", small)
    for row, column in [(0, 0), (1, 17), (2, 36)]:
        scores = torch.zeros(3, 37, dtype=dtype)
        scores[row, column] = bad
        level = np.zeros(1, scores.numpy().dtype)
        assert not counts(scores, np.array([0, 0, 1, 1]), level, True)[1]
        scores[row, column] = torch.finfo(dtype).max
        assert counts(scores, np.array([0, 0, 1, 1]), level, True)[1]


@pytest.mark.parametrize(("small", "dtype"), WAYS)
def test_zero_has_no_sign_and_the_smallest_numbers_count(small, dtype, monkeypatch):
    monkeypatch.setattr(module, "_SMALL", small)
    tiny = torch.finfo(dtype).smallest_normal / 2
    scores = torch.tensor([[0.0, -0.0, tiny, -tiny]], dtype=dtype)
    level = np.zeros(1, scores.numpy().dtype)
    assert counts(scores, np.array([0, 1]), level, False)[0].tolist() == [3]
    assert counts(scores, np.array([0, 1]), level, True)[0].tolist() == [1]


def test_a_block_may_be_a_view(monkeypatch):
    whole = torch.arange(12.0).reshape(3, 4)
    thresholds, starts = np.array([5.0, 9.0], np.float32), np.array([0, 0, 1, 1, 2])
    for small in (COMPILED, TENSORS):
        monkeypatch.setattr(module, "_SMALL", small)
        assert counts(whole.T, starts, thresholds, False)[0].tolist() == [2, 1]


def test_long_rows_with_hundreds_of_thresholds(monkeypatch):
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 5000, (3, 20_011)).astype(np.float32)
    starts = np.array([0, 300, 301, 700])
    thresholds = rng.integers(0, 5000, 700).astype(np.float32)
    rows = np.repeat(np.arange(3), np.diff(starts))
    expected = np.array([(scores[row] >= level).sum() for row, level in zip(rows, thresholds, strict=True)])
    for small in (COMPILED, TENSORS):
        monkeypatch.setattr(module, "_SMALL", small)
        found = counts(torch.from_numpy(scores), starts, thresholds, False)[0]
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
