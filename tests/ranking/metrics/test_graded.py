import numpy as np
import pytest
import torch

from tests.naive import evaluate as naive
from tests.naive import judged as naive_judged
from tests.ranking.dense import dense
from vse_pipe.ranking import evaluation as engine
from vse_pipe.ranking.evaluation import Depths
from vse_pipe.ranking.metrics.graded import Graded, kendall

QUERIES, ITEMS = np.arange(40) + 100, np.arange(60)[::-1] * 7


def case(seed: int) -> tuple[np.ndarray, Graded]:
    """Scores with many ties; a third of the queries without a judgement, some pairs judged twice, some ids that are not there."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 6, (40, 60)) / 4
    rows, columns = rng.integers(0, 26, 400), rng.integers(0, 60, 400)
    judged = Graded(
        np.concatenate([QUERIES[rows], [5]]),
        np.concatenate([ITEMS[columns], [3]]),
        np.append(rng.integers(0, 4, 400), 3.0),
    )
    return scores, judged


def grades_of(judged: Graded) -> list[dict[int, float]]:
    """By query and column, means of what was given more than once."""
    given: list[dict[int, list[float]]] = [{} for _ in QUERIES]
    for query, item, grade in zip(
        judged.images.tolist(), judged.captions.tolist(), judged.grades.tolist(), strict=True
    ):
        if query in QUERIES and item in ITEMS:
            given[query - 100].setdefault(ITEMS.tolist().index(item), []).append(grade)
    return [{item: sum(all_) / len(all_) for item, all_ in one.items()} for one in given]


@pytest.mark.parametrize("ties", ["pessimistic", "optimistic"])
@pytest.mark.parametrize("above", [0.0, 1.5])
def test_against_loops(ties, above):
    scores, judged = case(int(above))
    cells = judged.cells("image_to_text", QUERIES, ITEMS)
    depths = Depths.of([3], [5])
    found = engine.rank_graded(dense(scores, block=7), cells, above, ties, depths)
    grades = grades_of(judged)
    right = [{item for item, grade in one.items() if grade > above} for one in grades]
    rows = [row for row, own in enumerate(right) if own]
    assert found is not None
    assert found.rows.tolist() == rows
    assert found.correct.tolist() == [len(right[row]) for row in rows]
    for place, row in enumerate(rows):
        places = naive.positions(scores[row].tolist(), right[row], ties)
        assert found.ranks[place] == places[0]
        assert found.hits[3][place] == (places[0] < 3)
        assert found.measures["ap"][place] == pytest.approx(naive.average_precision(places))
        assert found.measures["r_precision"][place] == pytest.approx(naive.r_precision(places))
        for k in (5, 10):
            wanted = naive_judged.ndcg(scores[row].tolist(), grades[row], k, ties)
            assert found.measures[f"graded_ndcg_{k}"][place] == pytest.approx(wanted), (row, k)


def test_average_ties_give_the_mean_of_their_orders():
    """Two correct items, of grades 1 and 3, share a score at the top: either order is as likely."""
    judged = Graded(np.array([100, 100]), ITEMS[:2].copy(), np.array([1.0, 3.0]))
    scores = np.zeros((40, 60))
    scores[0, :2] = 1.0
    cells = judged.cells("image_to_text", QUERIES, ITEMS)
    one = [
        engine.rank_graded(dense(scores), cells, 0.0, ties, Depths())
        for ties in ("pessimistic", "average", "optimistic")
    ]
    worst, mean, best = (found.measures["graded_ndcg_10"][0] for found in one if found)
    assert best == 1.0
    assert mean == pytest.approx((worst + best) / 2)


def test_one_grade_for_all_is_plain_ndcg():
    scores, judged = case(4)
    alike = Graded(judged.images, judged.captions, np.full(len(judged.grades), 2.0))
    found = engine.rank_graded(
        dense(scores), alike.cells("image_to_text", QUERIES, ITEMS), 0.0, "pessimistic", Depths()
    )
    assert found is not None
    np.testing.assert_allclose(found.measures["graded_ndcg_10"], found.measures["ndcg_10"], rtol=1e-12)


def test_directions_are_each_others_transpose_and_no_judgement_is_nobody():
    scores, judged = case(2)
    there = judged.cells("image_to_text", QUERIES, ITEMS)
    back = judged.cells("text_to_image", ITEMS, QUERIES)
    assert (there.rows.tolist(), there.columns.tolist()) == (back.columns.tolist(), back.rows.tolist())
    np.testing.assert_array_equal(engine.of_pairs(dense(scores), there), engine.of_pairs(dense(scores.T), back))
    np.testing.assert_array_equal(engine.of_pairs(dense(scores, block=9), there), scores[there.rows, there.columns])
    assert engine.rank_graded(dense(scores), there, 3.0, "pessimistic", Depths()) is None


def test_kendall_against_loops():
    rng = np.random.default_rng(1)
    grades = rng.integers(0, 4, 90).astype(float)
    scores = np.round(grades + rng.standard_normal(90), 1)
    found = kendall(scores, grades)
    assert found["tau_b"] == pytest.approx(naive_judged.tau_b(scores.tolist(), grades.tolist()))
    assert found["tau_c"] == pytest.approx(naive_judged.tau_c(scores.tolist(), grades.tolist()))
    assert 0.3 < found["tau_b"] < 0.9
    assert (
        kendall(np.ones(4), np.arange(4.0))
        == kendall(np.arange(4.0), np.ones(4))
        == kendall(np.ones(1), np.ones(1))
        == {}
    )


def test_scores_of_another_precision_are_read_as_they_are():
    scores, judged = case(3)
    cells = judged.cells("image_to_text", QUERIES, ITEMS)
    narrow = engine.of_pairs(dense(scores.astype(np.float32)), cells)
    assert narrow.dtype == np.float64
    assert torch.tensor(narrow).equal(torch.tensor(scores[cells.rows, cells.columns]))
