import numpy as np
import pytest
import pytrec_eval
import torch

from tests.naive import evaluate as naive
from tests.ranking.dense import dense
from vse_pipe.ranking import evaluation
from vse_pipe.ranking.matching import MatchedPairs
from vse_pipe.ranking.metrics.recall import Truth
from vse_pipe.ranking.scores import STRIP

HUBNESS = ["robin_hood@10", "gini@10", "anti_hubs@10", "largest_hub@10"]
NAMES = [
    *["r@1", "r@5", "r@10", "med_r", "mean_r", "mrr", "map", "map@r", "r_precision", "ndcg@10"],
    *["skew@1", "skew@5", "skew@10", *HUBNESS],
]
TREC = {"mrr": "recip_rank", "map": "map", "r_precision": "Rprec", "ndcg@10": "ndcg_cut.10"}


@pytest.fixture
def case():
    """Two strips of queries, items with one to three correct ones each."""
    rng = np.random.default_rng(0)
    queries = np.arange(STRIP + 20)
    items = np.concatenate([queries, queries[::2], queries[::3]])
    scores = rng.standard_normal((len(queries), len(items))) + 2.0 * (queries[:, None] == items)
    return scores, queries, items


def test_one_pass_gives_what_the_loops_give(case):
    scores, queries, items = case
    found = evaluation.rank(dense(scores, block=100), Truth.by_image(queries, items), "pessimistic")
    correct = [set(np.flatnonzero(items == query).tolist()) for query in queries]
    rows = scores.tolist()
    ranks = [naive.best_rank(row, own, "pessimistic") for row, own in zip(rows, correct, strict=True)]
    tops = [naive.top(row, 10) for row in rows]
    assert found.ranks.tolist() == ranks
    assert found.top.reshape(len(queries), 10).tolist() == tops
    metrics = found.metrics()
    assert list(metrics) == NAMES
    for k in (1, 5, 10):
        counts = naive.occurrence([top[:k] for top in tops], len(items))
        assert found.occurrence[k].tolist() == counts
        assert metrics[f"r@{k}"] == pytest.approx(naive.recall(ranks, k))
        assert metrics[f"skew@{k}"] == pytest.approx(naive.skewness(counts), nan_ok=True)
    assert metrics["med_r"] == naive.median_rank(ranks)
    assert metrics["mean_r"] == pytest.approx(naive.mean_rank(ranks))
    assert metrics["robin_hood@10"] == pytest.approx(naive.robin_hood(counts))
    assert metrics["gini@10"] == pytest.approx(naive.gini(counts))
    assert metrics["anti_hubs@10"] == pytest.approx(100 * naive.anti_hubs(counts))
    assert metrics["largest_hub@10"] == max(counts)


@pytest.mark.parametrize("ties", ["pessimistic", "average", "optimistic"])
def test_measures_of_all_correct_items_are_those_of_the_loops(case, ties):
    scores, queries, items = case
    scores = scores.round(1)
    found = evaluation.rank(dense(scores, block=100), Truth.by_image(queries, items), ties)
    correct = [set(np.flatnonzero(items == query).tolist()) for query in queries]
    places = [naive.positions(row, own, ties) for row, own in zip(scores.tolist(), correct, strict=True)]
    expected = {
        "ap": [naive.average_precision(own) for own in places],
        "ap_at_r": [naive.average_precision_at_r(own) for own in places],
        "r_precision": [naive.r_precision(own) for own in places],
        "ndcg_10": [naive.ndcg(own, 10) for own in places],
    }
    assert list(found.measures) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found.measures[name], values, rtol=1e-12, err_msg=name)
    metrics = found.metrics()
    shown = {"map": "ap", "map@r": "ap_at_r", "r_precision": "r_precision", "ndcg@10": "ndcg_10"}
    for name, measure in shown.items():
        assert metrics[name] == pytest.approx(100 * np.mean(expected[measure]))
        assert 0 < metrics[name] < 100
    assert metrics["mrr"] == pytest.approx(100 * np.mean([naive.reciprocal_rank(own) for own in places]))


def test_shares_of_a_ranking_are_those_of_trec(case):
    scores, queries, items = case
    truth = {str(query): {str(item): 1 for item in np.flatnonzero(items == query)} for query in queries}
    run = {
        str(query): {str(item): score for item, score in enumerate(row)} for query, row in enumerate(scores.tolist())
    }
    judged = pytrec_eval.RelevanceEvaluator(truth, {"success.1,5,10", *TREC.values()}).evaluate(run)
    metrics = evaluation.rank(dense(scores), Truth.by_image(queries, items), "pessimistic").metrics()
    for k in (1, 5, 10):
        expected = 100 * np.mean([values[f"success_{k}"] for values in judged.values()])
        assert metrics[f"r@{k}"] == pytest.approx(expected)
    for name, theirs in TREC.items():
        expected = 100 * np.mean([values[theirs.replace(".", "_")] for values in judged.values()])
        assert metrics[name] == pytest.approx(expected)


def test_the_order_of_items_does_not_matter(case):
    scores, queries, items = case
    order = np.random.default_rng(1).permutation(len(items))
    before = evaluation.rank(dense(scores), Truth.by_image(queries, items), "pessimistic").metrics()
    moved = evaluation.rank(dense(scores[:, order]), Truth.by_image(queries, items[order]), "pessimistic")
    assert moved.metrics() == pytest.approx(before)


@pytest.mark.parametrize("ties", ["pessimistic", "average"])
def test_constant_scores_get_next_to_nothing(case, ties):
    scores, queries, items = case
    metrics = evaluation.rank(dense(np.zeros_like(scores)), Truth.by_image(queries, items), ties).metrics()
    assert [metrics[f"r@{k}"] for k in (1, 5, 10)] == [0.0, 0.0, 0.0]
    assert (metrics["map@r"], metrics["r_precision"], metrics["ndcg@10"]) == (0.0, 0.0, 0.0)
    assert 0 < metrics["mrr"] < 2
    assert metrics["largest_hub@10"] == len(queries)
    assert metrics["anti_hubs@10"] == pytest.approx(100 * (1 - 10 / len(items)))


def test_fewer_items_than_ten():
    found = evaluation.rank(
        dense(np.array([[0.1, 0.3], [0.2, 0.1]])), Truth.by_image(np.arange(2), np.arange(2)), "average"
    )
    assert found.lengths.tolist() == [2, 2]
    assert found.top.tolist() == [1, 0, 0, 1]
    assert found.occurrence[10].tolist() == [2, 2]


def test_a_matching_counts_queries_without_a_match_as_misses():
    truth = Truth.by_image(np.arange(3), np.array([0, 1, 2, 2]))
    one = MatchedPairs(np.array([0, 2]), np.array([0, 1]))
    ten = MatchedPairs(np.array([2, 0, 2, 0]), np.array([3, 1, 0, 0]))
    found = evaluation.matched({1: one, 10: ten}, truth)
    assert found.ranks is None
    assert found.hits[1].tolist() == [True, False, False]
    assert found.hits[10].tolist() == [True, False, True]
    assert found.occurrence[10].tolist() == [2, 1, 0, 1]
    assert (found.top.tolist(), found.lengths.tolist()) == ([1, 0, 3, 0], [2, 0, 2])
    metrics = found.metrics()
    assert list(metrics) == ["r@1", "r@10", "skew@1", "skew@10", *HUBNESS]
    assert (metrics["anti_hubs@10"], metrics["largest_hub@10"]) == (25.0, 2)
    assert found.measures == {}
    assert metrics["r@1"] == pytest.approx(100 / 3)


def test_large_lambda_hits_what_nearest_neighbours_hit():
    from vse_pipe.ranking.matching import Allowance, greedy

    scores = np.random.default_rng(0).standard_normal((40, 30))
    truth = Truth.by_image(np.arange(40) % 30, np.arange(30))
    ranked = evaluation.rank(dense(scores), truth, "pessimistic")
    settings = [Allowance(k, 40.0) for k in (1, 5, 10)]
    pairs = dict(zip((1, 5, 10), greedy(dense(scores), settings, "rows"), strict=True))
    matched = evaluation.matched(pairs, truth)
    for k in (1, 5, 10):
        assert torch.equal(torch.from_numpy(matched.hits[k]), torch.from_numpy(ranked.hits[k]))
        np.testing.assert_array_equal(matched.occurrence[k], ranked.occurrence[k])
