"""Positions of correct items and measures from them, against loops."""

import math

import numpy as np
import pytest
import pytrec_eval
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import evaluate as naive
from tests.ranking.dense import dense, matrices
from vse_pipe.core.errors import InputError
from vse_pipe.ranking import evaluation as engine
from vse_pipe.ranking import graded
from vse_pipe.ranking.evaluation import Depths
from vse_pipe.ranking.graded import Graded, counts, kendall, positions
from vse_pipe.ranking.recall import Truth, best_ranks

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
    depths = Depths.including([3], [5])
    found = engine.rank_graded(dense(scores), cells, above, ties, depths)
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
            wanted = naive.judged_ndcg(scores[row].tolist(), grades[row], k, ties)
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
    np.testing.assert_array_equal(engine.pair_scores(dense(scores), there), engine.pair_scores(dense(scores.T), back))
    np.testing.assert_array_equal(engine.pair_scores(dense(scores), there), scores[there.rows, there.columns])
    assert engine.rank_graded(dense(scores), there, 3.0, "pessimistic", Depths()) is None


def test_kendall_against_loops():
    rng = np.random.default_rng(1)
    grades = rng.integers(0, 4, 90).astype(float)
    scores = np.round(grades + rng.standard_normal(90), 1)
    found = kendall(scores, grades)
    assert found["tau_b"] == pytest.approx(naive.tau_b(scores.tolist(), grades.tolist()))
    assert found["tau_c"] == pytest.approx(naive.tau_c(scores.tolist(), grades.tolist()))
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
    narrow = engine.pair_scores(dense(scores.astype(np.float32)), cells)
    assert narrow.dtype == np.float64
    assert torch.tensor(narrow).equal(torch.tensor(scores[cells.rows, cells.columns]))


@pytest.mark.parametrize("ties", ["pessimistic", "optimistic"])
def test_plausible_against_loops(ties):
    rng = np.random.default_rng(0)
    own, others = (rng.integers(0, 2, (count, 5)).astype(np.float32) for count in (30, 80))
    others = others[~(others == own[0]).all(axis=1)]  # so that the first query has no item of its own labels
    scores = rng.integers(0, 8, (30, len(others))).astype(np.float32)
    apart = graded.distances(torch.from_numpy(own), torch.from_numpy(others))
    found = graded.r_precisions(torch.from_numpy(scores), apart, ties).numpy()
    named = [[set(np.flatnonzero(row).tolist()) for row in side] for side in (own, others)]
    assert math.isnan(found[0, 0])
    for query, row in enumerate(scores.tolist()):
        for most in graded.DIFFERENCES:
            wanted = naive.pmrp(row, named[0][query], named[1], most, ties)
            assert wanted is None or found[query, most] == pytest.approx(wanted)
            assert (wanted is None) == math.isnan(found[query, most])


def test_average_lies_between():
    rng = np.random.default_rng(3)
    apart = torch.from_numpy(rng.integers(0, 4, (50, 40)).astype(np.float32))
    scores = torch.from_numpy(rng.integers(0, 3, (50, 40)).astype(np.float32))
    worst, mean, best = (
        graded.r_precisions(scores, apart, ties).nanmean() for ties in ("pessimistic", "average", "optimistic")
    )
    assert worst < mean < best


def test_a_collapsed_model_finds_nothing_unless_everything_is_plausible():
    scores = torch.zeros(2, 10)
    apart = torch.tensor([[0.0] * 4 + [5.0] * 6, [0.0] * 10])
    assert graded.r_precisions(scores, apart, "pessimistic").tolist() == [[0.0] * 3, [1.0] * 3]


# Positions of one query; with average ties all of a query may be moved by a half.
integral = st.sets(st.integers(0, 30), min_size=1, max_size=25).map(sorted)
places = st.tuples(integral, st.sampled_from([0.0, 0.5])).map(lambda drawn: [p + drawn[1] for p in drawn[0]])
queries = st.lists(places, min_size=1, max_size=6)
MEASURES = {
    graded.average_precision: naive.average_precision,
    graded.average_precision_at_r: naive.average_precision_at_r,
    graded.r_precision: naive.r_precision,
}


def flat(lists: list[list[float]]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate(lists).astype(float), np.cumsum([0, *[len(own) for own in lists]])


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.__name__)
def test_precision_against_loops(measure):
    @given(queries)
    def check(lists):
        expected = [MEASURES[measure](own) for own in lists]
        np.testing.assert_allclose(measure(*flat(lists)), expected, rtol=1e-12)

    check()


@given(queries, st.sampled_from([1, 5, 10]))
def test_ndcg_and_reciprocal_rank_against_loops(lists, k):
    expected = [naive.ndcg(own, k) for own in lists]
    np.testing.assert_allclose(graded.binary_ndcg(*flat(lists), k), expected, rtol=1e-12)
    best = np.array([own[0] for own in lists])
    expected = [naive.reciprocal_rank(own) for own in lists]
    np.testing.assert_allclose(graded.reciprocal_rank(best), expected, rtol=1e-12)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=5))
def test_a_perfect_ranking_gets_exactly_1_everywhere(numbers):
    lists = [list(range(number)) for number in numbers]
    for measure in MEASURES:
        assert measure(*flat(lists)).tolist() == [1.0] * len(lists)
    assert graded.binary_ndcg(*flat(lists), 10).tolist() == [1.0] * len(lists)


def test_by_hand():
    """Correct at ranks 1, 3 and 12 of R = 3: precisions 1, 2/3, 1/4."""
    of_one = np.array([0.0, 2.0, 11.0]), np.array([0, 3])
    assert graded.average_precision(*of_one)[0] == pytest.approx((1 + 2 / 3 + 1 / 4) / 3)
    assert graded.average_precision_at_r(*of_one)[0] == pytest.approx((1 + 2 / 3) / 3)
    assert graded.r_precision(*of_one)[0] == pytest.approx(2 / 3)
    ideal = 1 + 1 / np.log2(3) + 1 / 2
    assert graded.binary_ndcg(*of_one, 10)[0] == pytest.approx((1 + 1 / 2) / ideal)


def test_half_a_position_is_cut_off_as_recall_cuts_it():
    """One wrong item tied with the only correct one: rank 1.5, position 0.5, below 1."""
    tied = np.array([0.5]), np.array([0, 1])
    assert graded.r_precision(*tied).tolist() == [1.0]
    assert graded.average_precision_at_r(*tied)[0] == pytest.approx(1 / 1.5)
    assert graded.binary_ndcg(*tied, 1)[0] == pytest.approx(1 / np.log2(2.5))


def test_agreement_with_trec_eval():
    """Ragged truths, no ties: trec_eval breaks them by the names of documents."""
    rng = np.random.default_rng(0)
    scores = rng.permuted(np.linspace(-1, 1, 40 * 60).reshape(40, 60), axis=1).astype(np.float32)
    correct = [rng.choice(60, size=rng.integers(1, 50), replace=False) for _ in scores]
    judgements = {str(q): {str(item): 1 for item in items} for q, items in enumerate(correct)}
    run = {str(q): {str(item): score for item, score in enumerate(row)} for q, row in enumerate(scores.tolist())}
    judged = pytrec_eval.RelevanceEvaluator(judgements, {"map", "Rprec", "recip_rank", "ndcg_cut.10"}).evaluate(run)
    truth = Truth.listed(correct, 60)
    places = positions(torch.from_numpy(scores), slice(0, 40), truth, "pessimistic")
    ours = {
        "map": graded.average_precision(places, truth.starts),
        "Rprec": graded.r_precision(places, truth.starts),
        "ndcg_cut_10": graded.binary_ndcg(places, truth.starts, 10),
        "recip_rank": graded.reciprocal_rank(places[truth.starts[:-1]]),
    }
    for name, values in ours.items():
        expected = [judged[str(q)][name] for q in range(40)]
        np.testing.assert_allclose(values, expected, rtol=1e-9, err_msg=name)


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
def test_listed_against_loops(ties, dtype):
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
    monkeypatch.setattr(graded, "_SMALL", COMPILED)
    expected = found(scores, correct, ties, torch.float32)
    monkeypatch.setattr(graded, "_SMALL", TENSORS)
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


@pytest.mark.parametrize(
    ("ties", "expected"),
    [("pessimistic", [1.0, 5.0, 6.0]), ("average", [1.0, 4.0, 5.0]), ("optimistic", [1.0, 3.0, 4.0])],
)
def test_listed_by_hand(ties, expected):
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
    monkeypatch.setattr(graded, "_SMALL", small)
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
    monkeypatch.setattr(graded, "_SMALL", small)

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
    monkeypatch.setattr(graded, "_SMALL", small)
    for row, column in [(0, 0), (1, 17), (2, 36)]:
        scores = torch.zeros(3, 37, dtype=dtype)
        scores[row, column] = bad
        level = np.zeros(1, scores.numpy().dtype)
        assert not counts(scores, np.array([0, 0, 1, 1]), level, True)[1]
        scores[row, column] = torch.finfo(dtype).max
        assert counts(scores, np.array([0, 0, 1, 1]), level, True)[1]


@pytest.mark.parametrize(("small", "dtype"), WAYS)
def test_zero_has_no_sign_and_the_smallest_numbers_count(small, dtype, monkeypatch):
    monkeypatch.setattr(graded, "_SMALL", small)
    tiny = torch.finfo(dtype).smallest_normal / 2
    scores = torch.tensor([[0.0, -0.0, tiny, -tiny]], dtype=dtype)
    level = np.zeros(1, scores.numpy().dtype)
    assert counts(scores, np.array([0, 1]), level, False)[0].tolist() == [3]
    assert counts(scores, np.array([0, 1]), level, True)[0].tolist() == [1]


def test_a_block_may_be_a_view(monkeypatch):
    whole = torch.arange(12.0).reshape(3, 4)
    thresholds, starts = np.array([5.0, 9.0], np.float32), np.array([0, 0, 1, 1, 2])
    for small in (COMPILED, TENSORS):
        monkeypatch.setattr(graded, "_SMALL", small)
        assert counts(whole.T, starts, thresholds, False)[0].tolist() == [2, 1]


def test_long_rows_with_hundreds_of_thresholds(monkeypatch):
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 5000, (3, 20_011)).astype(np.float32)
    starts = np.array([0, 300, 301, 700])
    thresholds = rng.integers(0, 5000, 700).astype(np.float32)
    rows = np.repeat(np.arange(3), np.diff(starts))
    expected = np.array([(scores[row] >= level).sum() for row, level in zip(rows, thresholds, strict=True)])
    for small in (COMPILED, TENSORS):
        monkeypatch.setattr(graded, "_SMALL", small)
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
