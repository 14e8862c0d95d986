import numpy as np
import pytest
import torch

from vse_pipe.core.errors import InputError
from vse_pipe.ranking import evaluation
from vse_pipe.ranking.evaluation import judged_items, judged_pairs
from vse_pipe.ranking.matching import MatchedPairs
from vse_pipe.ranking.metrics.recall import Truth
from vse_pipe.ranking.scores import STRIP, Scores


def truth(queries: int, items: int, every: int) -> Truth:
    """Every so many queries have two correct items, the others none."""
    correct = [
        np.array([row % items, (row + 1) % items]) if row % every == 0 else np.empty(0, np.int64)
        for row in range(queries)
    ]
    return Truth.listed(correct, items)


@pytest.mark.parametrize("block", [1, 7, STRIP, 5000])
@pytest.mark.parametrize("every", [2, 300, 1000])
def test_only_rows_with_a_correct_item_come_through(block, every):
    matrix = torch.rand(2 * STRIP + 31, 9, generator=torch.Generator().manual_seed(0))
    whole = truth(len(matrix), 9, every)
    scores, kept = judged_items(Scores.dense(matrix, block), whole)
    rows = torch.arange(0, len(matrix), every)
    assert scores.shape == (len(rows), 9)
    blocks = list(scores.blocks())
    assert torch.equal(torch.cat([part for _, part in blocks]), matrix[rows])
    assert all(span.stop - span.start == min(block, len(rows) - span.start) for span, _ in blocks)
    assert len(kept) == len(rows)
    found = evaluation.rank(scores, kept, "pessimistic")
    correct = [whole.items[whole.starts[row] : whole.starts[row + 1]].tolist() for row in rows.tolist()]
    best = [max(matrix[row, column].item() for column in own) for row, own in zip(rows.tolist(), correct, strict=True)]
    expected = [int((matrix[row] > value).sum()) for row, value in zip(rows.tolist(), best, strict=True)]
    assert found.ranks.tolist() == expected


def test_each_strip_is_computed_once_and_those_without_a_query_not_at_all():
    asked = []

    def compute(rows: slice) -> torch.Tensor:
        asked.append(rows.start)
        return torch.rand(rows.stop - rows.start, 5)

    height = 4 * STRIP
    correct = [np.array([0]) if row in (1, 5, 2 * STRIP) else np.empty(0, np.int64) for row in range(height)]
    scores, _ = judged_items(Scores((height, 5), compute), Truth.listed(correct, 5))
    assert sum(len(part) for _, part in scores.blocks()) == 3
    assert asked == [0, 2 * STRIP]


def test_when_all_are_judged_nothing_changes():
    scores, whole = Scores.dense(torch.eye(4)), truth(4, 4, 1)
    assert judged_items(scores, whole) == (scores, whole)
    pairs = {1: MatchedPairs(np.array([0]), np.array([1]))}
    assert judged_pairs(pairs, whole) == (pairs, whole)


def test_pairs_of_other_queries_are_left_out_of_a_matching():
    pairs = {1: MatchedPairs(np.array([0, 1, 2, 3, 4]), np.array([0, 1, 1, 2, 4]))}
    kept, small = judged_pairs(pairs, truth(5, 5, 2))
    assert kept[1].rows.tolist() == [0, 1, 2]
    assert kept[1].columns.tolist() == [0, 1, 4]
    assert evaluation.matched(kept, small).hits[1].tolist() == [True, False, True]


def test_without_any_correct_item_there_is_nothing_to_measure():
    none = Truth.listed([np.empty(0, np.int64)] * 3, 4)
    with pytest.raises(InputError, match="none of the 3 queries has a correct item"):
        judged_items(Scores.dense(torch.rand(3, 4)), none)
    with pytest.raises(InputError, match="none of the 3 queries has a correct item"):
        judged_pairs({}, none)
