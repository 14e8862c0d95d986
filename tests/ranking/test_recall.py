"""Ranks, recall, hubness and convergence against loops."""

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import evaluate as naive
from tests.ranking.dense import matrices
from vse_pipe.core.errors import InputError
from vse_pipe.ranking.hubness import anti_hubs, gini, hub_share, largest_hub, occurrence, robin_hood, skewness
from vse_pipe.ranking.recall import (
    NOISE,
    RISE,
    Relevance,
    Truth,
    best_ranks,
    chance,
    converged,
    hits_at,
    mean_rank,
    median_rank,
    recall,
    waited,
)

POLICIES = ["pessimistic", "average", "optimistic"]
few_values = matrices(elements=st.integers(0, 3).map(float))


def ranks(scores: np.ndarray, correct: list, ties: str) -> list[float]:
    truth = Truth.listed([np.array(items) for items in correct], scores.shape[1])
    return best_ranks(torch.from_numpy(scores), slice(0, len(scores)), truth, ties).tolist()


@pytest.mark.parametrize("ties", POLICIES)
def test_against_loops(ties):
    @settings(deadline=None)
    @given(few_values, st.data())
    def check(scores, data):
        some = st.sets(st.integers(0, scores.shape[1] - 1), min_size=1).map(sorted)
        correct = [data.draw(some) for _ in scores]
        expected = [naive.best_rank(row, set(items), ties) for row, items in zip(scores.tolist(), correct, strict=True)]
        assert ranks(scores, correct, ties) == expected

    check()


@pytest.mark.parametrize(("ties", "expected"), [("pessimistic", 99.0), ("average", 49.5), ("optimistic", 0.0)])
def test_a_collapsed_model_gets_no_credit_unless_asked(ties, expected):
    assert ranks(np.zeros((1, 100)), [[42]], ties) == [expected]


def test_several_correct_items_do_not_stand_in_each_others_way():
    assert ranks(np.array([[0.5, 0.5, 0.5, 0.5]]), [[0, 1, 2]], "pessimistic") == [1.0]


def test_the_block_may_start_anywhere():
    scores = torch.tensor([[0.1, 0.9], [0.9, 0.1]])
    truth = Truth.by_image(np.array([7, 8, 8]), np.array([7, 8]))
    assert best_ranks(scores, slice(1, 3), truth, "pessimistic").tolist() == [0.0, 1.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_refused(bad):
    """NaN compares false with everything: counted, it would rank first."""
    with pytest.raises(InputError, match="scores of queries 0 to 1 hold NaN or infinite values"):
        ranks(np.array([[0.1, 0.2], [bad, 0.3]]), [[0], [0]], "pessimistic")


some_ranks = st.lists(st.integers(0, 20).map(float), min_size=1, max_size=30)


@given(some_ranks, st.sampled_from([1, 5, 10]))
def test_recall_against_loops(ranks, k):
    values = np.array(ranks)
    assert recall(hits_at(values, k)) == pytest.approx(naive.recall(ranks, k))
    assert median_rank(values) == naive.median_rank(ranks)
    assert mean_rank(values) == pytest.approx(naive.mean_rank(ranks))


def test_by_hand():
    ranks = np.array([0.0, 0.0, 1.0, 4.0, 5.0, 9.0, 10.0, 99.0])
    assert [recall(hits_at(ranks, k)) for k in (1, 5, 10)] == [25.0, 50.0, 75.0]
    assert median_rank(ranks) == 5.0
    assert mean_rank(ranks) == 17.0


def test_the_median_between_two_ranks_rounds_down():
    assert median_rank(np.array([0.0, 1.0])) == 1.0
    assert median_rank(np.array([1.0, 2.0])) == 2.0


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(6, 9), st.sampled_from([1, 2, 5, 10]))
def test_chance_is_the_share_of_all_ways_to_take_k_items(correct, items, k):
    shares = []
    for count in correct:
        ways = list(combinations(range(items), min(k, items)))
        shares.append(sum(min(way) < count for way in ways) / len(ways))
    assert chance(np.array(correct), items, k) == pytest.approx(100 * np.mean(shares))


CPU = torch.device("cpu")


def correct(truth: Truth) -> list[set[int]]:
    return [set(truth.items[start:stop].tolist()) for start, stop in zip(truth.starts, truth.starts[1:], strict=False)]


def test_any_number_of_captions_in_any_order():
    truth = Truth.by_image(np.array([30, 10, 20]), np.array([10, 30, 10, 20, 30, 10]))
    assert correct(truth) == [{1, 4}, {0, 2, 5}, {3}]
    assert (len(truth), truth.columns) == (3, 6)


def test_a_caption_has_the_image_it_describes():
    assert correct(Truth.by_image(np.array([20, 10, 10]), np.array([10, 20]))) == [{1}, {0}, {0}]


@pytest.mark.parametrize(
    ("queries", "items", "message"),
    [
        ([1, 2, 3], [2], "2 queries have no correct item, the first is of image_id 1"),
        ([9], [], "1 queries have no correct item, the first is of image_id 9"),
    ],
)
def test_a_query_without_a_correct_item_is_refused(queries, items, message):
    with pytest.raises(InputError, match=message):
        Truth.by_image(np.array(queries), np.array(items, dtype=np.int64))


def test_pairs_of_a_block_are_numbered_within_it():
    truth = Truth.by_image(np.array([30, 10, 20]), np.array([10, 30, 10, 20, 30, 10]))
    local, columns = truth.correct_pairs(slice(1, 3), CPU)
    assert list(zip(local.tolist(), columns.tolist(), strict=True)) == [(0, 0), (0, 2), (0, 5), (1, 3)]


def test_holds_says_which_pairs_are_correct():
    truth = Truth.listed([np.array([2, 0]), np.array([1]), np.array([0, 1, 2])], 3)
    rows, columns = np.divmod(np.arange(9), 3)
    assert truth.holds(rows, columns).tolist() == [True, False, True, False, True, False, True, True, True]


def test_pairs_of_ids_say_what_is_correct():
    queries, items = np.array([30, 10, 20]), np.array([5, 9, 7, 1])
    pairs = [(10, 7), (20, 1), (10, 5), (10, 7), (20, 99), (77, 5)]
    truth = Truth.by_pairs(queries, items, *map(np.array, zip(*pairs, strict=True)))
    found = [truth.items[truth.starts[row] : truth.starts[row + 1]].tolist() for row in range(3)]
    assert found == [[], [0, 2], [3]]
    assert (len(truth), truth.columns) == (3, 4)
    assert truth.judged().tolist() == [1, 2]
    assert truth.holds(np.array([1, 1, 0]), np.array([2, 1, 0])).tolist() == [True, False, False]


def test_without_the_unjudged_the_others_keep_their_items():
    truth = Truth.listed([np.array([1]), np.empty(0, np.int64), np.array([0, 2])], 3)
    small = truth.only_judged()
    assert small.starts.tolist() == [0, 1, 3]
    assert small.items.tolist() == [1, 0, 2]
    assert small.judged().tolist() == [0, 1]


def test_relevance_both_ways_is_one_set_of_pairs():
    images, captions = np.array([1, 2]), np.array([10, 20])
    assert Relevance.both_ways(images, captions).pairs == {
        "image_to_text": (images, captions),
        "text_to_image": (captions, images),
    }


def test_queries_of_one_item_take_turns_and_those_without_any_come_first():
    correct = [[2], [0, 2], [], [2], [0], [2]]
    truth = Truth.listed([np.array(items, int) for items in correct], 3)
    assert truth.turns().tolist() == [0, 0, 0, 1, 1, 2]


counts = st.lists(st.integers(0, 50), min_size=1, max_size=40)


@given(counts)
def test_skewness_against_loops(values):
    assert skewness(np.array(values)) == pytest.approx(naive.skewness(values), abs=1e-9, nan_ok=True)


def test_hubness_by_hand():
    """One hub among four items: mean 1, deviations -1 -1 -1 3, skewness 6 / 3^1.5."""
    assert skewness(np.array([0, 0, 0, 4])) == pytest.approx(6 / 3**1.5)


def test_even_retrieval_leaves_skewness_undefined():
    assert np.isnan(skewness(np.array([3, 3, 3])))


def test_items_nobody_retrieves_are_counted():
    assert occurrence(np.array([2, 0, 2, 2]), 5).tolist() == [1, 0, 3, 0, 0]
    assert occurrence(np.array([], np.int64), 3).tolist() == [0, 0, 0]


@given(counts)
def test_indices_against_loops(values):
    assert robin_hood(np.array(values)) == pytest.approx(naive.robin_hood(values), abs=1e-12)
    assert gini(np.array(values)) == pytest.approx(naive.gini(values), abs=1e-12)
    assert anti_hubs(np.array(values)) == pytest.approx(naive.anti_hubs(values))
    assert hub_share(np.array(values)) == pytest.approx(naive.hub_share(values), abs=1e-12)
    assert largest_hub(np.array(values)) == sorted(values)[-1]


def test_one_hub_takes_all():
    """Three of four items lack a quarter of all places each; Gini of one owner among n is (n - 1) / n."""
    one = np.array([0, 8, 0, 0])
    assert (robin_hood(one), gini(one), anti_hubs(one), largest_hub(one)) == (0.75, 0.75, 0.75, 8)


@pytest.mark.parametrize(("values", "unused"), [([3, 3, 3], 0.0), ([7], 0.0), ([0, 0], 1.0)])
def test_constant_counts_are_even(values, unused):
    even = np.array(values)
    assert (robin_hood(even), gini(even), anti_hubs(even)) == (0.0, 0.0, unused)
    assert largest_hub(even) == values[0]


def _stops(rsums, patience, since=0):
    """The epoch after which a run ends, by a loop that remembers; None where it does not."""
    best, without = -1.0, 0
    for epoch, rsum in enumerate(rsums, 1):
        without = 0 if rsum > best or epoch <= since else without + 1
        best = max(best, rsum)
        if without == patience:
            return epoch
    return None


@pytest.mark.parametrize("seed", range(40))
def test_patience_is_that_of_a_loop(seed):
    rng = np.random.default_rng(seed)
    rsums = rng.integers(0, 12, 20).tolist()  # with ties: the first of the best counts
    for patience in (1, 2, 3, 7):
        for since in (0, 4, 15):
            ended = next((n for n in range(1, 21) if waited(rsums[:n], since) >= patience), None)
            assert ended == _stops(rsums, patience, since)
            if ended is not None and ended > patience:
                assert converged(rsums[:ended], patience), "what patience ended has converged"


def test_a_curve_converges_when_its_last_epochs_hardly_rise():
    flat, rising = [100.0, 200.0, 250.0, 251.0, 250.5, 252.0], [100.0, 200.0, 250.0, 251.0, 252.0, 260.0]
    assert converged(flat)
    assert not converged(rising)
    edge = 250.0 / (1 - RISE)
    assert converged([250.0, 1, 2, edge - 1e-9])
    assert not converged([250.0, 1, 2, edge + 1e-9])
    assert converged(flat, patience=1)
    assert not converged(rising, patience=1)
    assert converged(rising[:-1], patience=2), "251 and 252 after 250"


def test_a_short_run_is_judged_by_the_epochs_after_its_first():
    assert converged([3.56, 3.56, 3.56])
    assert converged([3.56, 3.6])
    assert converged([3.0, 2.0, 1.0])
    assert not converged([100.0, 150.0])
    assert not converged([100.0, 150.0, 151.0])
    assert converged([100.0, 150.0, 151.0], patience=1)


def test_one_epoch_tells_nothing():
    assert not converged([])
    assert not converged([300.0])
    assert waited([]) == 0
    assert waited([5.0, 1.0], since=9) == 0


def test_half_a_point_is_noise_however_low_rsum_is():
    assert converged([3.2, 3.1, 3.5, 3.4, 3.6])
    assert converged([3.2, 3.1, 3.2 + NOISE])
    assert not converged([3.2, 3.1, 3.2 + NOISE + 1e-9])


def test_a_model_that_finds_nothing_at_all_has_not_risen():
    assert converged([0.0] * 5)
