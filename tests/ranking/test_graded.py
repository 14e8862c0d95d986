"""Positions of correct items and measures from them, against loops."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.golden.ranking import listed
from tests.naive import evaluate as naive
from tests.ranking.dense import dense, matrices
from vse_pipe.core.errors import InputError
from vse_pipe.ranking import outcomes
from vse_pipe.ranking.graded import Graded, kendall
from vse_pipe.ranking.outcomes import Depths
from vse_pipe.ranking.recall import positions

POLICIES = ["pessimistic", "optimistic"]
QUERIES, ITEMS = np.arange(40) + 100, np.arange(60)[::-1] * 7


def case(seed: int) -> tuple[np.ndarray, Graded]:
    """Scores with many ties; a third of the queries without a judgement, some pairs judged twice, some ids that are not there."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 6, (40, 60)) / 4
    rows, columns = rng.integers(0, 26, 400), rng.integers(0, 60, 400)
    return scores, Graded(
        np.append(QUERIES[rows], 5), np.append(ITEMS[columns], 3), np.append(rng.integers(0, 4, 400), 3.0)
    )


def grades_of(judged: Graded) -> list[dict[int, float]]:
    """By query and column, means of what was given more than once."""
    given: list[dict[int, list[float]]] = [{} for _ in QUERIES]
    columns = (judged.images, judged.captions, judged.grades)
    for query, item, grade in zip(*(column.tolist() for column in columns), strict=True):
        if query in QUERIES and item in ITEMS:
            given[query - 100].setdefault(ITEMS.tolist().index(item), []).append(grade)
    return [{item: sum(all_) / len(all_) for item, all_ in one.items()} for one in given]


def measured(scores: np.ndarray, judged: Graded, above=0.0, ties="pessimistic", depths=None):
    cells = judged.cells("image_to_text", QUERIES, ITEMS)
    return outcomes.rank_graded(dense(scores), cells, above, ties, depths or Depths())[:2]


def _pair_scores(scores, cells):
    return outcomes.rank_graded(dense(scores), cells, 0.0, "pessimistic", Depths())[2]


@pytest.mark.parametrize("ties", ["pessimistic", "optimistic"])
@pytest.mark.parametrize("above", [0.0, 1.5])
def test_against_loops(ties, above):
    scores, judged = case(int(above))
    found_rows, found = measured(scores, judged, above, ties, Depths.including([3], [5]))
    grades = grades_of(judged)
    right = [{item for item, grade in one.items() if grade > above} for one in grades]
    rows = [row for row, own in enumerate(right) if own]
    assert found_rows.tolist() == rows
    assert found["correct"].tolist() == [len(right[row]) for row in rows]
    for place, row in enumerate(rows):
        places = naive.positions(scores[row].tolist(), right[row], ties)
        assert found["rank"][place] == places[0] + 1
        assert found["hit_3"][place] == (places[0] < 3)
        assert found["ap"][place] == pytest.approx(naive.average_precision(places))
        assert found["r_precision"][place] == pytest.approx(naive.r_precision(places))
        for k in (5, 10):
            wanted = naive.judged_ndcg(scores[row].tolist(), grades[row], k, ties)
            assert found[f"graded_ndcg_{k}"][place] == pytest.approx(wanted), (row, k)


def test_directions_are_each_others_transpose_and_no_judgement_is_nobody():
    scores, judged = case(2)
    there = judged.cells("image_to_text", QUERIES, ITEMS)
    back = judged.cells("text_to_image", ITEMS, QUERIES)
    assert (there.rows.tolist(), there.columns.tolist()) == (back.columns.tolist(), back.rows.tolist())
    np.testing.assert_array_equal(_pair_scores(scores, there), _pair_scores(scores.T, back))
    np.testing.assert_array_equal(_pair_scores(scores, there), scores[there.rows, there.columns])
    assert not len(measured(scores, judged, 3.0)[0])
    narrow = _pair_scores(scores.astype(np.float32), there)
    assert narrow.dtype == np.float64
    assert torch.tensor(narrow).equal(torch.tensor(scores[there.rows, there.columns])), "read as they are"


def test_kendall_against_loops():
    rng = np.random.default_rng(1)
    grades = rng.integers(0, 4, 90).astype(float)
    scores = np.round(grades + rng.standard_normal(90), 1)
    found, lists = kendall(scores, grades), (scores.tolist(), grades.tolist())
    assert found == pytest.approx({"tau_b": naive.tau_b(*lists), "tau_c": naive.tau_c(*lists)})
    assert 0.3 < found["tau_b"] < 0.9
    ones, grow = np.ones(4), np.arange(4.0)
    assert kendall(ones, grow) == kendall(grow, ones) == kendall(np.ones(1), np.ones(1)) == {}


few_values = matrices(elements=st.integers(0, 3).map(float))


def truths(scores: np.ndarray) -> st.SearchStrategy[list[list[int]]]:
    """One correct item to all of them, a different number for each query."""
    some = st.sets(st.integers(0, scores.shape[1] - 1), min_size=1).map(sorted)
    return st.lists(some, min_size=len(scores), max_size=len(scores))


def found(scores: np.ndarray, correct: list, ties: str, dtype=torch.float64) -> list[float]:
    truth = listed([np.array(items) for items in correct], scores.shape[1])
    return positions(torch.from_numpy(scores).to(dtype), slice(0, len(scores)), truth, ties).tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("ties", POLICIES)
def test_listed_against_loops(ties, dtype):
    @given(few_values, st.data())
    def check(scores, data):
        correct = data.draw(truths(scores))
        rows = zip(scores.tolist(), correct, strict=True)
        expected = [place for row, items in rows for place in naive.positions(row, set(items), ties)]
        assert found(scores, correct, ties, dtype) == expected

    check()


@pytest.mark.parametrize("ties", POLICIES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_refused(bad, ties):
    for row, column in [(0, 0), (1, 0), (1, 1)]:
        scores = np.array([[0.1, 0.2], [0.4, 0.3]])
        scores[row, column] = bad
        with pytest.raises(InputError, match="scores of queries 0 to 1 hold NaN or infinite values"):
            found(scores, [[0], [0]], ties)
