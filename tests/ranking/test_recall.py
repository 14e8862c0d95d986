"""Ranks, recall, hubness and convergence against loops."""

from itertools import combinations, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.golden.ranking import listed
from tests.naive import evaluate as naive
from vse_pipe.core.errors import InputError
from vse_pipe.ranking.hubness import anti_hubs, gini, hub_share, largest_hub, robin_hood, skewness
from vse_pipe.ranking.recall import NOISE, RISE, Truth, chance, converged, waited


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(6, 9), st.sampled_from([1, 2, 5, 10]))
def test_chance_is_the_share_of_all_ways_to_take_k_items(correct, items, k):
    shares = []
    for count in correct:
        ways = list(combinations(range(items), min(k, items)))
        shares.append(sum(min(way) < count for way in ways) / len(ways))
    assert chance(np.array(correct), items, k) == pytest.approx(100 * np.mean(shares))


def correct(truth: Truth) -> list[list[int]]:
    return [items.tolist() for items in np.split(truth.items, truth.starts[1:-1])]


def test_a_query_has_the_items_of_its_image():
    truth = Truth.by_image(np.array([30, 10, 20]), np.array([10, 30, 10, 20, 30, 10]))
    assert correct(truth) == [[1, 4], [0, 2, 5], [3]]
    assert (len(truth), truth.columns) == (3, 6)
    local, columns = truth.correct_pairs(slice(1, 3), torch.device("cpu"))
    assert list(zip(local.tolist(), columns.tolist(), strict=True)) == [(0, 0), (0, 2), (0, 5), (1, 3)]
    assert correct(Truth.by_image(np.array([20, 10, 10]), np.array([10, 20]))) == [[1], [0], [0]]


def test_a_query_without_a_correct_item_is_refused():
    with pytest.raises(InputError, match="2 queries have no correct item, the first is of image_id 1"):
        Truth.by_image(np.array([1, 2, 3]), np.array([2]))


def test_pairs_of_ids_say_what_is_correct():
    queries, items = np.array([30, 10, 20]), np.array([5, 9, 7, 1])
    pairs = [(10, 7), (20, 1), (10, 5), (10, 7), (20, 99), (77, 5)]
    truth = Truth.by_pairs(queries, items, *map(np.array, zip(*pairs, strict=True)))
    assert correct(truth) == [[], [0, 2], [3]]
    assert (len(truth), truth.columns) == (3, 4)
    assert truth.judged().tolist() == [1, 2]
    assert truth.holds(np.array([1, 1, 0]), np.array([2, 1, 0])).tolist() == [True, False, False]


def test_queries_of_one_item_take_turns_and_those_without_any_come_first():
    correct = [[2], [0, 2], [], [2], [0], [2]]
    truth = listed([np.array(items, int) for items in correct], 3)
    assert truth.turns().tolist() == [0, 0, 0, 1, 1, 2]


counts = st.lists(st.integers(0, 50), min_size=1, max_size=40)


@given(counts)
def test_hubness_against_loops(values):
    given = np.array(values)
    assert skewness(given) == pytest.approx(naive.skewness(values), abs=1e-9, nan_ok=True)
    assert robin_hood(given) == pytest.approx(naive.robin_hood(values), abs=1e-12)
    assert gini(given) == pytest.approx(naive.gini(values), abs=1e-12)
    assert anti_hubs(given) == pytest.approx(naive.anti_hubs(values))
    assert hub_share(given) == pytest.approx(naive.hub_share(values), abs=1e-12)
    assert largest_hub(given) == sorted(values)[-1]


def _stops(rsums, patience, since=0):
    """The epoch after which a run ends, by a loop that remembers; None where it does not."""
    best, without = -1.0, 0
    for epoch, rsum in enumerate(rsums, 1):
        without = 0 if rsum > best or epoch <= since else without + 1
        best = max(best, rsum)
        if without == patience:
            return epoch
    return None


@pytest.mark.parametrize("seed", range(10))
def test_patience_is_that_of_a_loop(seed):
    rsums = np.random.default_rng(seed).integers(0, 12, 20).tolist()  # with ties: the first of the best counts
    for patience, since in product((1, 2, 3, 7), (0, 4, 15)):
        ended = next((n for n in range(1, 21) if waited(rsums[:n], since) >= patience), None)
        assert ended == _stops(rsums, patience, since)
        if ended is not None and ended > patience:
            assert converged(rsums[:ended], patience), "what patience ended has converged"


FLAT, RISING = [100.0, 200.0, 250.0, 251.0, 250.5, 252.0], [100.0, 200.0, 250.0, 251.0, 252.0, 260.0]
EDGE = 250.0 / (1 - RISE)


@pytest.mark.parametrize(
    ("rsums", "patience", "expected"),
    [
        (FLAT, None, True),
        (RISING, None, False),
        ([250.0, 1, 2, EDGE - 1e-9], None, True),
        ([250.0, 1, 2, EDGE + 1e-9], None, False),
        (RISING, 1, False),
        # A short run is judged by the epochs after its first.
        ([100.0, 150.0], None, False),
        # One epoch tells nothing, half a point is noise however low rsum is, and what finds nothing has not risen.
        ([], None, False),
        ([3.2, 3.1, 3.2 + NOISE], None, True),
        ([3.2, 3.1, 3.2 + NOISE + 1e-9], None, False),
        ([0.0] * 5, None, True),
    ],
)
def test_a_curve_converges_when_its_last_epochs_hardly_rise(rsums, patience, expected):
    assert converged(rsums, *([] if patience is None else [patience])) == expected
