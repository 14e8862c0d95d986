import numpy as np
import pytest

from tests.naive import criteria as naive
from tests.ranking.dense import dense, whole
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.inference import sinkhorn

inverted_softmax = INFERENCES.load("is")


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    return 0.3 * rng.standard_normal((7, 9)), 0.3 * rng.standard_normal((300, 9))


def rescored(scores: np.ndarray, bank: np.ndarray, **params) -> np.ndarray:
    return whole(sinkhorn.rerank(dense(scores), Bank(dense(bank), False), sinkhorn.Params(**params)))


@pytest.mark.parametrize("iterations", [1, 2, 7])
def test_equals_plain_loops(case, iterations):
    scores, bank = case
    _, items = naive.sinkhorn(bank.tolist(), 0.05, iterations)
    found = rescored(scores, bank, tau=0.05, tolerance=1e-300, max_iterations=iterations)
    np.testing.assert_allclose(found, scores / 0.05 + np.array(items), rtol=1e-10)


def test_one_iteration_ranks_as_the_inverted_softmax(case):
    scores, bank = case
    once = rescored(scores, bank, tau=0.05, max_iterations=1)
    params = inverted_softmax.Params(beta=20.0)
    softmax = whole(inverted_softmax.rerank(dense(scores), Bank(dense(bank), False), params))
    assert np.ptp(once - softmax) < 1e-9
    assert np.array_equal(once.argsort(axis=1), softmax.argsort(axis=1))


@pytest.mark.parametrize("tau", [0.02, 0.05, 0.2])
def test_the_residual_it_reports_is_that_of_the_marginals(case, tau):
    _, bank = case
    bias = sinkhorn.item_bias(Bank(dense(bank), False), sinkhorn.Params(tau=tau, tolerance=1e-4))
    assert bias.notes["residual"] <= 1e-4
    queries, items = naive.sinkhorn(bank.tolist(), tau, bias.notes["iterations"])
    np.testing.assert_allclose(-bias.bias.numpy(), items, rtol=1e-9, atol=1e-9)
    plan = np.exp(bank / tau + np.array(queries)[:, None] + np.array(items))
    np.testing.assert_allclose(plan.sum(axis=0), 1 / 9, rtol=1e-9)
    error = np.abs(plan.sum(axis=1) * 300 - 1).max()
    assert error == pytest.approx(bias.notes["residual"], rel=1e-6)


def test_giving_up_is_reported(case):
    scores, bank = case
    notes = sinkhorn.rerank(dense(scores), Bank(dense(bank), False), sinkhorn.Params(tau=0.01, max_iterations=2)).notes
    assert notes["iterations"] == 2
    assert notes["residual"] > 1e-3
