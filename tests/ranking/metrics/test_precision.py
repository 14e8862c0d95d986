import numpy as np
import pytest
import pytrec_eval
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import evaluate as naive
from vse_pipe.ranking.metrics import graded
from vse_pipe.ranking.metrics.listed import positions
from vse_pipe.ranking.metrics.recall import Truth

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
def test_against_loops(measure):
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


@given(queries)
def test_bounds(lists):
    found = [measure(*flat(lists)) for measure in MEASURES] + [graded.binary_ndcg(*flat(lists), 10)]
    for values in found:
        assert (values >= 0).all()
        assert (values <= 1).all()
    whole, at_r, share, _ = found
    assert (at_r <= np.minimum(whole, share)).all()


@given(st.lists(st.integers(1, 300), min_size=1, max_size=5))
def test_a_perfect_ranking_gets_exactly_1_everywhere(numbers):
    lists = [list(range(number)) for number in numbers]
    for measure in MEASURES:
        assert measure(*flat(lists)).tolist() == [1.0] * len(lists)
    assert graded.binary_ndcg(*flat(lists), 10).tolist() == [1.0] * len(lists)


@given(st.lists(st.integers(0, 20).map(float), min_size=1, max_size=8))
def test_with_one_correct_item_they_are_reciprocal_rank_and_hit_at_1(ranks):
    best = np.array(ranks)
    one_each = best, np.arange(len(best) + 1)
    reciprocal = graded.reciprocal_rank(best)
    np.testing.assert_array_equal(graded.average_precision(*one_each), reciprocal)
    np.testing.assert_array_equal(graded.r_precision(*one_each), best == 0)
    np.testing.assert_array_equal(graded.average_precision_at_r(*one_each), best == 0)


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
