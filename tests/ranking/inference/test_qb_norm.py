import numpy as np
import pytest
import torch

from tests.naive import criteria as naive
from tests.naive.evaluate import inverted_softmax
from tests.ranking.dense import dense, own, whole
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.inference import qb_norm
from vse_pipe.ranking.scores import Scores


@pytest.mark.parametrize(("k", "beta"), [(1, 20.0), (3, 1.0)])
def test_equals_plain_loops(k, beta):
    rng = np.random.default_rng(0)
    scores, bank = rng.standard_normal((40, 30)), rng.standard_normal((12, 30))
    found = whole(qb_norm.rerank(dense(scores), Bank(dense(bank), False), qb_norm.Params(k=k, beta=beta)))
    expected = np.array(naive.qb_norm(scores.tolist(), bank.tolist(), k, beta))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    raw = (found == scores).all(axis=1)
    assert 0 < raw.sum() < len(scores)


def test_a_query_whose_best_item_is_no_hub_keeps_its_row():
    scores = np.array([[0.9, 0.1], [0.1, 0.9]])
    bank = np.array([[0.5, 0.4], [0.6, 0.2]])
    found = whole(qb_norm.rerank(dense(scores), Bank(dense(bank), False), qb_norm.Params()))
    assert found[1].tolist() == [0.1, 0.9]
    assert found[0].tolist() != [0.9, 0.1]


@pytest.mark.parametrize("scale", [0.05, 1.0, 1e2, 1e3, 1e4, 1e5])
def test_large_scores_among_the_queries_that_are_ranked_keep_their_order(scale):
    """Every item's share goes to one query, and many shares are 1 in any float: their odds still differ. The best item of each
    query is a hub of such a bank, so that all rows are corrected."""
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((30, 8)) * rng.uniform(0.5, 1.5, (30, 1))
    scores = (((vectors + 0.7 * rng.standard_normal(vectors.shape)) @ vectors.T) * scale).astype(np.float32)
    expected = np.array(inverted_softmax(scores.astype(np.float64).tolist(), 20.0, False))
    found = whole(qb_norm.rerank(Scores.dense(torch.from_numpy(scores)), own(scores), qb_norm.Params()))
    for query in range(len(scores)):
        assert [(found[query] >= value).sum() for value in found[query]] == [
            (expected[query] >= value).sum() for value in expected[query]
        ], query


def test_a_single_query_has_all_of_every_item():
    scores = np.array([[0.3, 0.2]])
    assert whole(qb_norm.rerank(dense(scores), own(scores), qb_norm.Params())).tolist() == [[0.0, 0.0]]
