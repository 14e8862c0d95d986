import numpy as np
import pytest

from tests.ranking.dense import dense
from vse_pipe.artifacts.evaluation import MEASURES, OCCURRENCE_SCHEMA, RANKS_SCHEMA
from vse_pipe.evaluate.measure import occurrence_table, rank_table
from vse_pipe.ranking import evaluation
from vse_pipe.ranking.matching import MatchedPairs
from vse_pipe.ranking.metrics.recall import Truth

OWNERS = np.array([30, 30, 40, 40, 40])
TRUTH = Truth.by_image(OWNERS, np.array([30, 40]))


@pytest.fixture
def ranked():
    scores = np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.1, 0.6], [0.4, 0.5]])
    return evaluation.rank(dense(scores), TRUTH, "pessimistic")


def table(found: evaluation.Outcome):
    return rank_table(found, "text_to_image", 3, np.arange(5) + 700, np.array([30, 40]), OWNERS)


def test_a_row_per_query_with_its_image_and_its_measures(ranked):
    made = table(ranked)
    assert made.schema.equals(RANKS_SCHEMA)
    rows = made.to_pydict()
    assert rows["query_id"] == [700, 701, 702, 703, 704]
    assert rows["image_id"] == OWNERS.tolist()
    assert (set(rows["direction"]), set(rows["fold"])) == ({"text_to_image"}, {3})
    assert rows["rank"] == [1.0, 2.0, 2.0, 1.0, 1.0]
    assert rows["hit_1"] == [True, False, False, True, True]
    assert rows["ap"] == [1.0, 0.5, 0.5, 1.0, 1.0]
    assert rows["ap_at_r"] == rows["r_precision"] == [1.0, 0.0, 0.0, 1.0, 1.0]
    assert rows["ndcg_10"] == pytest.approx([1.0, 1 / np.log2(3), 1 / np.log2(3), 1.0, 1.0])
    assert rows["top"] == [[30, 40], [40, 30], [30, 40], [40, 30], [40, 30]]


def test_a_matching_leaves_rank_and_measures_empty():
    pairs = MatchedPairs(np.array([0, 3]), np.array([0, 1]))
    made = table(evaluation.matched(dict.fromkeys((1, 5, 10), pairs), TRUTH))
    for name in ("rank", *MEASURES):
        assert made[name].null_count == 5, name
    assert made["image_id"].to_pylist() == OWNERS.tolist()
    assert made["top"].to_pylist() == [[30], [], [], [40], []]


def test_a_row_per_item(ranked):
    made = occurrence_table(ranked, "text_to_image", 0, np.array([30, 40]))
    assert made.schema.equals(OCCURRENCE_SCHEMA)
    assert made.select(["item_id", "n_1", "n_10"]).to_pydict() == {"item_id": [30, 40], "n_1": [2, 3], "n_10": [5, 5]}
