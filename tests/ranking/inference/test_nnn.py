import numpy as np
import pytest

from tests.naive import criteria as naive
from tests.ranking.dense import dense, whole
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.inference import nnn


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    return rng.standard_normal((7, 9)), rng.standard_normal((300, 9))


@pytest.mark.parametrize(("k", "alpha"), [(1, 0.5), (16, 0.75), (1000, 1.0)])
def test_equals_plain_loops(case, k, alpha):
    scores, bank = case
    found = whole(nnn.rerank(dense(scores), Bank(dense(bank), False), nnn.Params(k=k, alpha=alpha)))
    np.testing.assert_allclose(found, naive.nnn(scores.tolist(), bank.tolist(), k, alpha), rtol=1e-12)


def test_alpha_0_is_nearest_neighbour_search_to_the_bit(case):
    scores, bank = case
    for precision in (np.float32, np.float64):
        own = scores.astype(precision)
        found = whole(nnn.rerank(dense(own), Bank(dense(bank.astype(precision)), False), nnn.Params(alpha=0.0)))
        assert np.array_equal(found, own)
        assert found.dtype == precision


def test_the_candidates_are_the_grid():
    params = nnn.Params(k_grid=[1, 2], alpha_grid=[0.5])
    assert [(one.k, one.alpha) for one in params.candidates()] == [(1, 0.5), (2, 0.5)]
