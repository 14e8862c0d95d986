import numpy as np
import pytest
import torch

from vse_pipe.core.errors import InputError
from vse_pipe.ranking.metrics.recall import Relevance, Truth

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
    local, columns = truth.of(slice(1, 3), CPU)
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
