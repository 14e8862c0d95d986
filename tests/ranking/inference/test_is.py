import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import evaluate as naive
from tests.ranking.dense import dense, matrices, own, whole
from vse_pipe.core.errors import InputError
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking import criteria, evaluation
from vse_pipe.ranking import scores as scores_module
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.matching import Allowance
from vse_pipe.ranking.recall import Truth

inverted_softmax = INFERENCES.load("is")
Params = inverted_softmax.Params
betas = st.sampled_from([0.5, 30.0, 1000.0])


def rescored(scores: np.ndarray, **params) -> np.ndarray:
    return whole(inverted_softmax.rerank(dense(scores), own(scores), Params(**params)))


@pytest.mark.parametrize("strip", [1, 3, 256])
@pytest.mark.parametrize("include_query", [False, True])
def test_against_exact_sums(strip, include_query, monkeypatch):
    monkeypatch.setattr(scores_module, "STRIP", strip)

    @settings(deadline=None, max_examples=20)
    @given(matrices(min_rows=2), betas)
    def check(scores, beta):
        expected = naive.inverted_softmax(scores.tolist(), beta, include_query)
        found = rescored(scores, beta=beta, include_query=include_query)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)

    check()


def test_a_dominant_query_does_not_cancel():
    """e^300 against 1: subtracting the query from the sum of all would leave 0 of the denominator."""
    scores = np.array([[10.0], [0.0], [-1.0]])
    found = rescored(scores, beta=30.0)
    assert found[0, 0] == pytest.approx(300 - np.log(1 + np.exp(-30)), abs=1e-12)
    assert found[1, 0] == pytest.approx(-300, abs=1e-12)


def test_a_single_query_has_no_others():
    with pytest.raises(InputError, match="sums over the other queries and there are none"):
        rescored(np.array([[0.1, 0.2]]))
    np.testing.assert_allclose(rescored(np.array([[0.1, 0.2]]), include_query=True), 0, atol=1e-12)


def test_the_matrix_it_reads_is_left_alone():
    scores = np.random.default_rng(0).standard_normal((6, 4))
    before = scores.copy()
    rescored(scores)
    assert np.array_equal(scores, before)


@pytest.mark.parametrize("is_own", [True, False], ids=["the ranked queries", "other queries"])
@pytest.mark.parametrize("matching", ["", "+rgm"])
def test_including_the_query_changes_no_rank_and_no_pair(is_own, matching):
    """float32, cosines, and the largest beta of the grid."""
    rng = np.random.default_rng(0)
    for beta in (1.0, 30.0, 100.0):
        vectors = [rng.standard_normal((60, 12)) for _ in range(3)]
        images, queries, others = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in vectors)
        scores, bank = ((side @ images.T).astype(np.float32) for side in (0.4 * queries + 0.6 * images, others))
        truth, found = Truth.by_image(np.arange(60), np.arange(60)), []
        for include in (False, True):
            criterion = criteria.parse(f"is{matching}", {"is": Params(beta=beta, include_query=include)})
            rescored = criterion.rerank(dense(scores), Bank(dense(scores if is_own else bank), is_own))
            if matching:
                pairs = next(criterion.match(rescored, [Allowance(5, 1.5)], truth))
                found.append(sorted(zip(pairs.rows.tolist(), pairs.columns.tolist(), strict=True)))
            else:
                found.append(evaluation.rank(rescored, truth, "pessimistic").ranks.tolist())
        assert found[0] == found[1]
