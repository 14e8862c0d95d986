import numpy as np
import pytest

from tests.naive import criteria as naive
from tests.ranking.dense import dense, own, whole
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.inference import mutual_proximity

PARAMS = mutual_proximity.Params()


def test_equals_plain_loops():
    rng = np.random.default_rng(0)
    scores, bank = rng.standard_normal((7, 9)), 3 + rng.standard_normal((600, 9))
    found = whole(mutual_proximity.rerank(dense(scores), Bank(dense(bank), False), PARAMS))
    np.testing.assert_allclose(found, naive.mutual_proximity(scores.tolist(), bank.tolist()), rtol=1e-9)


@pytest.mark.parametrize("outlier", [0.0, 60.0])
def test_single_precision_is_close_even_for_what_is_almost_sure(outlier):
    """Values near 0, of z around 5, as well as those beyond the table."""
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((40, 900))
    scores[np.arange(40), np.arange(40)] += 5
    scores[3, 7] -= outlier
    single, double = (
        whole(mutual_proximity.rerank(dense(values), own(values), PARAMS))
        for values in (scores.astype(np.float32), scores.astype(np.float32).astype(np.float64))
    )
    np.testing.assert_allclose(single, double, rtol=2e-5, atol=0)
    assert (double > -1e-4).any()
    assert (double.min() < -100) == (outlier > 0)


def test_certainty_is_the_same_from_both_sides():
    scores = np.random.default_rng(0).standard_normal((7, 9))
    one = whole(mutual_proximity.rerank(dense(scores), own(scores), PARAMS))
    other = whole(mutual_proximity.rerank(dense(scores.T.copy()), own(scores.T.copy()), PARAMS))
    np.testing.assert_allclose(one, other.T, rtol=1e-9)


def test_similarities_that_are_all_the_same_say_nothing():
    scores = np.full((4, 5), 0.3)
    found = whole(mutual_proximity.rerank(dense(scores), own(scores), PARAMS))
    np.testing.assert_allclose(found, 2 * np.log(0.5), rtol=1e-12)
