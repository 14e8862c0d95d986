"""Rescorings against plain loops, and what each owes besides."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import criteria as naive
from tests.naive import evaluate as among_themselves
from tests.ranking.dense import dense, matrices, own, whole
from vse_pipe.core.errors import InputError
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking import scores as scores_module
from vse_pipe.ranking.bank import Bank

inverted_softmax = INFERENCES.load("is")
csls, dual_is, mutual_proximity = map(INFERENCES.load, ["csls", "dual_is", "mutual_proximity"])
nnn, nns, qb_norm, sinkhorn = map(INFERENCES.load, ["nnn", "nns", "qb_norm", "sinkhorn"])


def rescored(member, scores: np.ndarray, bank: np.ndarray | None = None, **params) -> np.ndarray:
    """Without a bank by the very queries that are ranked."""
    held = own(scores) if bank is None else Bank(dense(bank), False)
    return whole(member.rerank(dense(scores), held, member.Params(**params)))


def drawn(*shapes: tuple[int, int], scale: float = 1.0) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [scale * rng.standard_normal(shape) for shape in shapes]


@pytest.mark.parametrize(
    ("member", "loops", "scores", "bank", "params"),
    [
        *[(nnn, naive.nnn, (7, 9), (300, 9), {"k": k, "alpha": a}) for k, a in [(1, 0.5), (16, 0.75), (1000, 1.0)]],
        *[(qb_norm, naive.qb_norm, (40, 30), (12, 30), {"k": k, "beta": beta}) for k, beta in [(1, 20.0), (3, 1.0)]],
        (mutual_proximity, naive.mutual_proximity, (7, 9), (600, 9), {}),
    ],
)
def test_with_a_bank_of_other_queries_it_equals_plain_loops(member, loops, scores, bank, params):
    scores, bank = drawn(scores, bank)
    bank += 3 * (member is mutual_proximity)
    found = rescored(member, scores, bank, **params)
    expected = loops(scores.tolist(), bank.tolist(), **params)
    np.testing.assert_allclose(found, expected, rtol=1e-12 if params else 1e-9)
    if member is qb_norm:
        assert 0 < (found == scores).all(axis=1).sum() < len(scores), "some rows are raw"


def test_sinkhorn_ranks_large_float32_scores_as_float64_ones():
    """Inner products of vectors without unit length."""
    (scores,) = (part.astype(np.float32) for part in drawn((60, 40), scale=300.0))
    found = rescored(sinkhorn, scores, tau=0.05)
    np.testing.assert_array_equal(
        (-found).argsort(axis=1), (-rescored(sinkhorn, scores.astype(float), tau=0.05)).argsort(axis=1)
    )


@pytest.mark.parametrize("strip", [1, 3, 256])
@pytest.mark.parametrize("flag", [True, False])
def test_csls_and_inverted_softmax_equal_plain_loops(flag, strip, monkeypatch):
    monkeypatch.setattr(scores_module, "STRIP", strip)

    @settings(max_examples=20)
    @given(matrices(), st.integers(1, 12))
    def check_csls(scores, k):
        expected = among_themselves.csls(scores.tolist(), k, flag)
        np.testing.assert_allclose(rescored(csls, scores, k=k, two_sided=flag), expected, atol=1e-12)

    @settings(max_examples=20)
    @given(matrices(min_rows=2), st.sampled_from([0.5, 30.0, 1000.0]))
    def check_inverted_softmax(scores, beta):
        found = rescored(inverted_softmax, scores, beta=beta, include_query=flag)
        expected = among_themselves.inverted_softmax(scores.tolist(), beta, flag)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)

    check_csls()
    check_inverted_softmax()


def test_a_dominant_query_does_not_cancel():
    """e^300 against 1: subtracting the query from the sum of all would leave 0 of the denominator."""
    found = rescored(inverted_softmax, np.array([[10.0], [0.0], [-1.0]]), beta=30.0)
    assert found[:2, 0] == pytest.approx([300 - np.log(1 + np.exp(-30)), -300], abs=1e-12)


def test_a_single_query_has_no_others():
    one = np.array([[0.1, 0.2]])
    with pytest.raises(InputError, match="sums over the other queries and there are none"):
        rescored(inverted_softmax, one)
    np.testing.assert_allclose(rescored(inverted_softmax, one, include_query=True), 0, atol=1e-12)
    assert rescored(qb_norm, one).tolist() == [[0.0, 0.0]], "it has all of every item"


@pytest.mark.parametrize("scale", [0.05, 1.0, 1e2, 1e3, 1e4, 1e5])
def test_large_scores_among_the_queries_that_are_ranked_keep_their_order(scale):
    """Every item's share goes to one query, and many shares are 1 in any float: their odds still differ. The best item of each
    query is a hub of such a bank, so that all rows are corrected."""
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((30, 8)) * rng.uniform(0.5, 1.5, (30, 1))
    scores = (((vectors + 0.7 * rng.standard_normal(vectors.shape)) @ vectors.T) * scale).astype(np.float32)
    expected = among_themselves.inverted_softmax(scores.astype(np.float64).tolist(), 20.0, False)
    ranks = [(side[:, None] >= side[:, :, None]).sum(2) for side in (rescored(qb_norm, scores), np.array(expected))]
    np.testing.assert_array_equal(*ranks)


@pytest.mark.parametrize("iterations", [1, 2, 7])
def test_sinkhorn_equals_plain_loops(iterations):
    scores, bank = drawn((7, 9), (300, 9), scale=0.3)
    _, items = naive.sinkhorn(bank.tolist(), 0.05, iterations)
    found = rescored(sinkhorn, scores, bank, tau=0.05, tolerance=1e-300, max_iterations=iterations)
    np.testing.assert_allclose(found, scores / 0.05 + np.array(items), rtol=1e-10)


@pytest.mark.parametrize("tau", [0.02, 0.05, 0.2])
def test_the_residual_it_reports_is_that_of_the_marginals(tau):
    _, bank = drawn((7, 9), (300, 9), scale=0.3)
    bias = sinkhorn.item_bias(Bank(dense(bank), False), sinkhorn.Params(tau=tau, tolerance=1e-4))
    assert bias.notes["residual"] <= 1e-4
    queries, items = naive.sinkhorn(bank.tolist(), tau, bias.notes["iterations"])
    np.testing.assert_allclose(-bias.bias.numpy(), items, rtol=1e-9, atol=1e-9)
    plan = np.exp(bank / tau + np.array(queries)[:, None] + np.array(items))
    np.testing.assert_allclose(plan.sum(axis=0), 1 / 9, rtol=1e-9)
    assert np.abs(plan.sum(axis=1) * 300 - 1).max() == pytest.approx(bias.notes["residual"], rel=1e-6)


@pytest.mark.parametrize(("is_own", "betas"), [*product([False, True], [(50.0, 1.0), (0.5, 3.0)])])
def test_dual_is_equals_plain_loops(is_own, betas):
    scores, bank, gallery = drawn((7, 9), (300, 9), (9 if is_own else 280, 9))
    bank = scores if is_own else bank
    params = dual_is.Params(beta=betas[0], gallery_beta=betas[1])
    found = whole(dual_is.rerank(dense(scores), Bank(dense(bank), is_own, lambda: dense(gallery)), params))
    lists = scores.tolist(), bank.tolist(), gallery.tolist()
    np.testing.assert_allclose(found, naive.dual_is(*lists, *betas, is_own), rtol=1e-12)


def test_scores_alone_are_not_enough():
    with pytest.raises(InputError, match="compares items with items and there are only scores"):
        rescored(dual_is, np.zeros((3, 2)))
