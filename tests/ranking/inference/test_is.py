import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.core.errors import InputError
from pipeline.project.registry import INFERENCES
from pipeline.ranking.engine import scores as scores_module
from tests.naive import evaluate as naive
from tests.ranking.dense import dense, matrices, own, whole

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


@settings(deadline=None, max_examples=30)
@given(matrices(min_rows=2))
def test_the_value_with_the_query_is_a_share(scores):
    np.testing.assert_allclose(np.exp(rescored(scores, include_query=True)).sum(axis=0), 1.0)


@settings(deadline=None, max_examples=30)
@given(matrices(min_rows=2, elements=st.integers(-8, 8).map(lambda value: value / 8)))
def test_both_forms_put_all_pairs_in_the_same_order(scores):
    """p / (1 - p) grows with p, so the two readings of the denominator rank and match alike."""
    paper, muse = rescored(scores, beta=3.0).ravel(), rescored(scores, beta=3.0, include_query=True).ravel()
    larger = paper[:, None] > paper + 1e-9
    assert (muse[:, None] > muse)[larger].all()


def test_a_hub_falls_behind():
    """Item 0 is the nearest of every query; item q + 1 of query q alone."""
    scores = np.full((4, 5), 0.1) + np.pad(0.4 * np.eye(4), ((0, 0), (1, 0)))
    scores[:, 0] = 0.6
    assert rescored(scores).argmax(axis=1).tolist() == [1, 2, 3, 4]


def test_a_single_query_has_no_others():
    with pytest.raises(InputError, match="sums over the other queries and there are none"):
        rescored(np.array([[0.1, 0.2]]))
    np.testing.assert_allclose(rescored(np.array([[0.1, 0.2]]), include_query=True), 0, atol=1e-12)


def test_the_matrix_it_reads_is_left_alone():
    scores = np.random.default_rng(0).standard_normal((6, 4))
    before = scores.copy()
    rescored(scores)
    assert np.array_equal(scores, before)
