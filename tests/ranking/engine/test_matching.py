import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tests.naive import evaluate as naive
from vse_pipe.core.errors import InputError
from vse_pipe.ranking import matching
from vse_pipe.ranking.matching import Allowance, greedy
from vse_pipe.ranking.scores import Scores
from vse_pipe.ranking.tiles import top_k

MODES = ["rows", "literal"]
tied = arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=11), elements=st.integers(0, 4).map(float))
relaxations = st.sampled_from([0.4, 1.0, 1.25, 1.5, 2.5, 3.0, 10.0])


def matched(scores: np.ndarray, setting: Allowance, mode: str) -> list[tuple[int, int]]:
    pairs = next(greedy(Scores.dense(torch.from_numpy(scores)), [setting], mode))
    return list(zip(pairs.rows.tolist(), pairs.columns.tolist(), strict=True))


@pytest.fixture(params=[(128, 1 << 23), (1, 1), (2, 6)], ids=["plenty", "one by one", "short lists"])
def lists(request, monkeypatch):
    """How many candidates are listed at first and fetched at once; short lists run dry in every example."""
    monkeypatch.setattr(matching, "FIRST_CANDIDATES", request.param[0])
    monkeypatch.setattr(matching, "FETCHED_AT_ONCE", request.param[1])


@pytest.mark.usefixtures("lists")
@pytest.mark.parametrize("mode", MODES)
def test_pairs_and_their_order_are_those_of_the_sorted_list(mode):
    @settings(deadline=None)
    @given(tied, st.integers(1, 6), relaxations)
    def check(scores, k, lam):
        assert matched(scores, Allowance(k, lam), mode) == naive.greedy(scores.tolist(), k, lam, mode)

    check()


@pytest.mark.usefixtures("lists")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(40, 200), (300, 60)])
def test_without_ties_over_several_strips(mode, shape):
    scores = np.random.default_rng(0).standard_normal(shape) + 2 * np.random.default_rng(1).standard_normal(shape[1])
    for setting in [Allowance(1), Allowance(5, 1.5), Allowance(10, 1.0)]:
        assert matched(scores, setting, mode) == naive.greedy(scores.tolist(), setting.k, setting.lam, mode)


@pytest.mark.usefixtures("lists")
def test_equal_scores_throughout():
    scores = np.zeros((12, 9))
    for mode in MODES:
        assert matched(scores, Allowance(2, 1.0), mode) == naive.greedy(scores.tolist(), 2, 1.0, mode)


EXAMPLE = np.array([[0.9, 0.8, 0.1], [0.7, 0.6, 0.2], [0.5, 0.4, 0.3]])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (Allowance(1, 1.0), [(0, 0), (1, 1), (2, 2)]),
        (Allowance(1, 2.0), [(0, 0), (1, 0), (2, 1)]),
        (Allowance(2, 1.0), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)]),
    ],
    ids=["one to one", "an item serves two", "the list is exhausted at 5 of 6"],
)
def test_by_hand(setting, expected, mode):
    assert matched(EXAMPLE, setting, mode) == expected


@pytest.mark.parametrize(
    ("setting", "shape", "mode", "expected"),
    [
        (Allowance(1, 2.5), (4, 4), "rows", 2),
        (Allowance(1, 3.5), (4, 4), "rows", 4),
        (Allowance(5, 1.25), (10, 50), "rows", 6),
        (Allowance(1, 1.0), (50, 10), "rows", 5),
        (Allowance(1, 1.0), (50, 10), "literal", 1),
    ],
    ids=["half to even below", "half to even above", "few queries", "many queries", "as printed"],
)
def test_quotas(setting, shape, mode, expected):
    assert setting.quota(*shape, mode) == expected


def test_literal_stops_where_the_printed_loop_does():
    scores = np.random.default_rng(0).random((20, 4))
    assert len(matched(scores, Allowance(2, 3.0), "literal")) == 4 * 2
    assert len(matched(scores, Allowance(2, 3.0), "rows")) == 20 * 2


@settings(deadline=None)
@given(tied, st.integers(1, 6))
def test_without_a_limit_it_is_nearest_neighbour_search(scores, k):
    pairs = matched(scores, Allowance(k, float(len(scores))), "rows")
    _, best = top_k(torch.from_numpy(scores), k)
    assert set(pairs) == {(row, column) for row, columns in enumerate(best.tolist()) for column in columns}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_refused(bad):
    with pytest.raises(InputError, match="NaN or infinite"):
        matched(np.array([[0.1, bad], [0.2, 0.3]]), Allowance(1), "rows")
