"""Matchings against the printed loop, every way to match, and scipy; choices among equal scores count as the worst."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tests.golden.ranking import listed
from tests.naive import evaluate as naive
from tests.ranking.dense import dense
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking import criteria, matching
from vse_pipe.ranking.inference import hungarian, rgm
from vse_pipe.ranking.matching import Allowance

MODES = ["rows", "literal"]


def pairs(member, scores: np.ndarray, setting: Allowance, **params) -> list[tuple[int, int]]:
    found = next(member.match(dense(scores), [setting], member.Params(**params)))
    return list(zip(found.rows.tolist(), found.columns.tolist(), strict=True))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(6, 30), (30, 6), (20, 20)])
def test_gm_is_the_printed_loop_with_lambda_one_and_rgm_has_one_for_each_setting(mode, shape):
    scores = np.random.default_rng(1).random(shape)
    for k in (1, 5, 10):
        assert pairs(INFERENCES.load("gm"), scores, Allowance(k, 1.0), mode=mode) == naive.greedy(
            scores.tolist(), k, 1.0, mode
        ), k
    given = [Allowance(1, 1.0), Allowance(5, 1.5), Allowance(10, 6.0)]
    for setting, found in zip(given, rgm.match(dense(scores), given, rgm.Params(mode=mode)), strict=True):
        expected = naive.greedy(scores.tolist(), setting.k, setting.lam, mode)
        assert list(zip(found.rows.tolist(), found.columns.tolist(), strict=True)) == expected


@pytest.fixture(params=[(20, 10), (-2, 1)], ids=["plenty", "one by one"])
def candidates(request, monkeypatch):
    """How many items of a query the first program gets beyond 3k and a further one more; a few take many programs."""
    monkeypatch.setattr(hungarian, "_FIRST", request.param[0])
    monkeypatch.setattr(hungarian, "_MORE", request.param[1])


@pytest.mark.usefixtures("candidates")
@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (4, 2), (2, 5)])
def test_size_and_sum_are_those_of_trying_every_matching(shape):
    elements = st.integers(-3, 3).map(float)

    @settings(max_examples=8)
    @given(arrays(np.float64, shape, elements=elements), st.integers(1, 2), st.sampled_from(MODES))
    def check(scores, k, mode):
        found, quota = pairs(hungarian, scores, Allowance(k, 7.0), mode=mode), Allowance(k).quota(*shape, mode)
        rows, columns = map(list, zip(*found, strict=True))
        assert len(set(found)) == len(found)
        assert np.bincount(rows).max() <= k
        assert np.bincount(columns).max() <= quota
        assert (len(rows), scores[rows, columns].sum()) == pytest.approx(naive.heaviest(scores.tolist(), k, quota))

    check()


def test_above_its_limit_it_refuses_with_the_numbers():
    message = r"hungarian: 4 x 5 are 20 pairs, more than inference.hungarian.most_pairs \(19\)"
    with pytest.raises(UsageError, match=message):
        pairs(hungarian, np.zeros((4, 5)), Allowance(1), most_pairs=19)
    assert hungarian.Params().most_pairs >= 5000 * 1000


@pytest.mark.parametrize(("member", "bad"), [*product([hungarian, rgm], [np.nan, np.inf, -np.inf])])
def test_scores_that_are_not_finite_are_refused(member, bad):
    with pytest.raises(InputError, match="NaN or infinite"):
        pairs(member, np.array([[0.1, bad], [0.2, 0.3]]), Allowance(1))


tied = arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=11), elements=st.integers(0, 4).map(float))
relaxations = st.sampled_from([0.4, 1.0, 1.25, 1.5, 2.5, 3.0, 10.0])


@pytest.fixture(params=[128, 1, 2], ids=["plenty", "one by one", "short lists"])
def lists(request, monkeypatch):
    """How many candidates are listed at once; short lists run dry in every example."""
    monkeypatch.setattr(matching, "CANDIDATES", request.param)


@pytest.mark.usefixtures("lists")
@pytest.mark.parametrize("mode", MODES)
def test_pairs_and_their_order_are_those_of_the_sorted_list(mode):
    @given(tied, st.integers(1, 6), relaxations)
    def check(scores, k, lam):
        assert pairs(rgm, scores, Allowance(k, lam), mode=mode) == naive.greedy(scores.tolist(), k, lam, mode)

    check()


@pytest.mark.usefixtures("lists")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(40, 200), (300, 60)])
def test_without_ties_over_several_strips(mode, shape):
    scores = np.random.default_rng(0).standard_normal(shape) + 2 * np.random.default_rng(1).standard_normal(shape[1])
    for setting in [Allowance(1), Allowance(5, 1.5), Allowance(10, 1.0)]:
        assert pairs(rgm, scores, setting, mode=mode) == naive.greedy(scores.tolist(), setting.k, setting.lam, mode)


@st.composite
def cases(draw):
    """Few different scores, so that there are ties of every kind: scores, the right columns of each query, K and lambda."""
    queries, items = draw(st.integers(1, 6)), draw(st.integers(1, 7))
    elements = st.integers(0, draw(st.sampled_from([0, 1, 3]))).map(float)
    scores = draw(arrays(np.float64, (queries, items), elements=elements))
    columns = st.sets(st.integers(0, items - 1), min_size=1, max_size=3).map(sorted)
    correct = draw(st.lists(columns, min_size=queries, max_size=queries))
    return scores, correct, draw(st.integers(1, 4)), draw(st.sampled_from([1.0, 1.5, 2.0, 10.0]))


@pytest.mark.usefixtures("lists")
def test_of_equal_scores_the_wrong_ones_are_taken_first():
    """As in the printed loop after the correct pairs have lost half a point, less than the smallest difference."""

    @given(cases())
    def check(case):
        scores, correct, k, lam = case
        truth = listed([np.array(columns) for columns in correct], scores.shape[1])
        held = next(criteria.parse("rgm", {}).match(dense(scores), [Allowance(k, lam)], truth))
        lowered = scores.copy()
        for row, columns in enumerate(correct):
            lowered[row, columns] -= 0.5
        expected = naive.greedy(lowered.tolist(), k, lam, "rows")
        assert list(zip(held.rows.tolist(), held.columns.tolist(), strict=True)) == expected

    check()
