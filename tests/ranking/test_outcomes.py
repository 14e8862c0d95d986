"""Outcomes against loops, on the CPU and on a GPU."""

import numpy as np
import pytest
import torch

from tests.golden.ranking import listed
from tests.naive import evaluate as naive
from tests.ranking.dense import dense, unit_vectors
from vse_pipe.core.errors import InputError
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking import outcomes
from vse_pipe.ranking.matching import MatchedPairs
from vse_pipe.ranking.outcomes import folds
from vse_pipe.ranking.recall import Truth
from vse_pipe.ranking.scores import STRIP, Scores
from vse_pipe.ranking.split import Split


def truth(queries: int, items: int, every: int) -> Truth:
    """Every so many queries have two correct items, the others none."""
    own = (np.array([row, row + 1]) % items if row % every == 0 else np.empty(0, np.int64) for row in range(queries))
    return listed(list(own), items)


@pytest.mark.parametrize("every", [2, 300, 1000])
def test_only_queries_with_a_correct_item_have_a_rank(every):
    matrix = torch.rand(2 * STRIP + 31, 9, generator=torch.Generator().manual_seed(0))
    correct = truth(len(matrix), 9, every)
    outcome, rows = outcomes.rank(Scores.dense(matrix), correct, "pessimistic"), range(0, len(matrix), every)
    assert outcome.occurrence[1].sum() == len(rows)
    for row, rank, top in zip(rows, outcome.ranks, outcome.top.reshape(len(rows), -1), strict=True):
        best = matrix[row, correct.items[correct.starts[row] : correct.starts[row + 1]]].max()
        assert rank == (matrix[row] > best).sum(), row
        assert top[0] == matrix[row].argmax()


def test_pairs_of_other_queries_are_left_out_of_a_matching():
    pairs = MatchedPairs(np.array([0, 1, 2, 3, 4]), np.array([0, 1, 1, 2, 4]))
    outcome = outcomes.matched({1: pairs}, truth(5, 5, 2))
    assert (outcome.lengths.tolist(), outcome.top.tolist()) == ([1, 1, 1], [0, 1, 4])
    assert outcome.occurrence[1].tolist() == [1, 1, 0, 0, 1]
    assert outcome.hits[1].tolist() == [True, False, True]


def test_without_any_correct_item_there_is_nothing_to_measure():
    none = listed([np.empty(0, np.int64)] * 3, 4)
    for measure in (
        lambda: outcomes.rank(Scores.dense(torch.rand(3, 4)), none, "pessimistic"),
        lambda: outcomes.matched({}, none),
    ):
        with pytest.raises(InputError, match="none of the 3 queries has a correct item"):
            measure()


HUBNESS = ["robin_hood@10", "gini@10", "anti_hubs@10", "largest_hub@10"]
NAMES = ["r@1", "r@5", "r@10", "med_r", "mean_r", "mrr", "map", "map@r", "r_precision", "ndcg@10"]
NAMES += ["skew@1", "skew@5", "skew@10", *HUBNESS]


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
    found = outcomes.rank(dense(scores), Truth.by_image(queries, items), "pessimistic")
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


@pytest.mark.parametrize("ties", ["pessimistic", "optimistic"])
def test_measures_of_all_correct_items_are_those_of_the_loops(case, ties):
    scores, queries, items = case
    scores = scores.round(1)
    found = outcomes.rank(dense(scores), Truth.by_image(queries, items), ties)
    correct = [set(np.flatnonzero(items == query).tolist()) for query in queries]
    places = [naive.positions(row, own, ties) for row, own in zip(scores.tolist(), correct, strict=True)]
    metrics, loops = found.metrics(), [naive.average_precision, naive.average_precision_at_r, naive.r_precision]
    loops.append(lambda own: naive.ndcg(own, 10))
    names = {"ap": "map", "ap_at_r": "map@r", "r_precision": "r_precision", "ndcg_10": "ndcg@10"}
    assert list(found.measures) == list(names)
    for (column, name), loop in zip(names.items(), loops, strict=True):
        expected = [loop(own) for own in places]
        np.testing.assert_allclose(found.measures[column], expected, rtol=1e-12, err_msg=column)
        assert metrics[name] == pytest.approx(100 * np.mean(expected))
        assert 0 < metrics[name] < 100
    assert metrics["mrr"] == pytest.approx(100 * np.mean([naive.reciprocal_rank(own) for own in places]))


def test_a_matching_counts_queries_without_a_match_as_misses():
    truth = Truth.by_image(np.arange(3), np.array([0, 1, 2, 2]))
    one = MatchedPairs(np.array([0, 2]), np.array([0, 1]))
    ten = MatchedPairs(np.array([2, 0, 2, 0]), np.array([3, 1, 0, 0]))
    found = outcomes.matched({1: one, 10: ten}, truth)
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


def split(images: int) -> Split:
    ids = np.arange(images)[::-1] * 3
    owners = np.repeat(ids, 2)
    return Split(ids, np.arange(2 * images), owners, unit_vectors(images, 4, 0), unit_vectors(2 * images, 4, 1))


def sizes(parts: list[Split]) -> list[int]:
    return [len(part.image_ids) for part in parts]


def test_full_is_one_fold_of_everything_and_folds_are_consecutive_in_the_order_of_the_file():
    whole = split(6)
    assert folds(whole, EvaluateParams(protocol="full", fold_size=5)) == [whole]
    parts = folds(whole, EvaluateParams(protocol="folds", fold_size=2))
    assert np.concatenate([part.image_ids for part in parts]).tolist() == whole.image_ids.tolist()
    assert np.concatenate([part.caption_ids for part in parts]).tolist() == whole.caption_ids.tolist()
    assert torch.equal(parts[1].images, whole.images[2:4])
    assert sizes(parts) == [2, 2, 2]


def test_first_is_the_first_fold_and_the_rest_is_left_out():
    whole = split(6)
    (only,) = folds(whole, EvaluateParams(protocol="first", fold_size=4))
    assert only.image_ids.tolist() == whole.image_ids[:4].tolist()
    assert only.caption_ids.tolist() == whole.caption_ids[:8].tolist()
    assert torch.equal(only.images, whole.images[:4])


@pytest.mark.parametrize(
    ("images", "protocol", "size", "message"),
    [
        (3, "first", 4, r"fewer than evaluate\.fold_size 4"),
        (5, "folds", 4, "not a multiple of evaluate.fold_size 4"),
    ],
)
def test_a_part_of_a_fold_is_refused(images, protocol, size, message):
    with pytest.raises(InputError, match=f"split 'test' has {images} images, {message}"):
        folds(split(images), EvaluateParams(protocol=protocol, fold_size=size))


@pytest.mark.parametrize(
    ("protocol", "images", "expected"),
    [
        *[("first", 8, [4]), ("first", 3, [3]), ("folds", 10, [4, 4]), ("folds", 3, [3]), ("full", 10, [10])],
    ],
)
def test_validation_uses_whole_folds_and_a_small_split_as_it_is(protocol, images, expected):
    assert sizes(folds(split(images), EvaluateParams(protocol=protocol, fold_size=4), chooses=True)) == expected
