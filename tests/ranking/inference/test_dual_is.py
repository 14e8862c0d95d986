import numpy as np
import pytest
import torch

from tests.naive import criteria as naive
from tests.ranking.dense import dense, own, unit_vectors, whole
from vse_pipe.core import workers
from vse_pipe.core.errors import InputError
from vse_pipe.ranking.bank import Bank, log_sum_exp
from vse_pipe.ranking.inference import dual_is
from vse_pipe.ranking.scores import STRIP, Scores
from vse_pipe.ranking.split import cosine


@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize(("beta", "gallery_beta"), [(50.0, 1.0), (0.5, 3.0)])
def test_equals_plain_loops(is_own, beta, gallery_beta):
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((7, 9))
    bank = scores if is_own else rng.standard_normal((300, 9))
    gallery = rng.standard_normal((9 if is_own else 280, 9))
    params = dual_is.Params(beta=beta, gallery_beta=gallery_beta)
    found = whole(dual_is.rerank(dense(scores), Bank(dense(bank), is_own, lambda: dense(gallery)), params))
    lists = scores.tolist(), bank.tolist(), gallery.tolist()
    np.testing.assert_allclose(found, naive.dual_is(*lists, beta, gallery_beta, is_own), rtol=1e-12)


def test_scores_alone_are_not_enough():
    scores = np.zeros((3, 2))
    with pytest.raises(InputError, match="compares items with items and there are only scores"):
        dual_is.rerank(dense(scores), own(scores), dual_is.Params())


@pytest.mark.parametrize("but_itself", [False, True])
@pytest.mark.parametrize("symmetric", [True, False])
def test_items_against_themselves_are_scored_once_a_pair_where_both_ways_are_alike(but_itself, symmetric):
    pairs = []

    def similarity(left, right):
        pairs.append(len(left) * len(right))
        return left @ (right if symmetric else right.cos()).T

    items = unit_vectors(17 * STRIP + 5, 8, 0)
    exponents = 30.0 * similarity(items.double(), items.double())
    if but_itself:
        exponents.fill_diagonal_(-torch.inf)
    pairs.clear()
    found = log_sum_exp(Scores.from_sides(items, items, similarity), 30.0, but_itself)
    torch.testing.assert_close(found, exponents.logsumexp(dim=0), rtol=1e-6, atol=0)
    assert (sum(pairs) < 0.7 * len(items) ** 2) == symmetric


def test_a_grid_of_candidates_makes_each_sum_once():
    asked = []

    def compute(rows):
        asked.append(rows)
        return torch.zeros(rows.stop - rows.start, 5)

    bank = Bank(Scores((9, 5), compute), False, lambda: Scores((7, 5), compute))
    candidates = dual_is.Params(beta_grid=[1.0, 2.0], gallery_beta_grid=[1.0, 2.0, 3.0]).candidates()
    biases = [float(dual_is.item_bias(bank, params).bias[0]) for params in candidates]
    assert biases == pytest.approx([np.log(9) + np.log(7)] * 6)
    assert len(asked) == 2 + 3


@pytest.mark.parametrize("first", [0, 3, 9])
def test_a_similarity_that_is_not_alike_both_ways_for_some_items_alone_is_scored_both_ways(first):
    items = unit_vectors(17 * STRIP + 5, 8, 0)
    items[:, 0] = 0
    items[first * STRIP : (first + 1) * STRIP, 0] = 1

    def similarity(left, right):
        return left[:, 1:] @ right[:, 1:].T + left[:, :1]

    found = log_sum_exp(Scores.from_sides(items, items, similarity), 30.0)
    expected = (30.0 * similarity(items.double(), items.double())).logsumexp(dim=0)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)


class _Two:
    """Two workers, one after the other."""

    count = 2

    def run(self, stream, parts, cost, ordered=True):
        parts = list(parts)
        return iter([*stream(parts[:5]), *stream(parts[5:])])


def test_workers_score_a_pair_once_as_well_and_to_the_bit():
    items = unit_vectors(17 * STRIP + 5, 8, 0)
    scores = [Scores.from_sides(items, items, cosine) for _ in range(2)]
    expected = log_sum_exp(scores[0], 30.0, but_itself=True)
    with workers.using(_Two()):
        assert torch.equal(log_sum_exp(scores[1], 30.0, but_itself=True), expected)
