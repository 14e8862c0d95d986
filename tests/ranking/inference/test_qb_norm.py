import numpy as np
import pytest

from pipeline.ranking.engine.bank import Bank
from pipeline.ranking.inference.qb_norm import criterion as qb_norm
from tests.naive import criteria as naive
from tests.ranking.dense import dense, whole


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
