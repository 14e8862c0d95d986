"""Fused scores against loops over queries, both ways."""

import numpy as np
import pytest
import torch

from tests.naive import criteria as naive
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.ranking.fragments import MeanScore, Several, Words, pooled
from vse_pipe.ranking.scores import Scores
from vse_pipe.ranking.similarity import RULES, Fused

ORACLES = {"mean": lambda row: row, "zscore": naive.standardised, "rrf": naive.reciprocal_ranks}
WEIGHTS = (0.5, 0.2, 0.3)


def product(images, captions):
    return images @ captions.T


def of_words(images, captions):
    return (images @ captions.vectors[captions.starts[:-1]].T).sigmoid()


def models(seed: int, images: int = 23, captions: int = 41) -> tuple[Several, Several, list]:
    """Small whole numbers, so that many scores tie, ordinary vectors, and words that only fragment models compare."""
    rng = torch.Generator().manual_seed(seed)
    coarse = [torch.randint(-1, 2, (rows, 4), generator=rng).float() for rows in (images, captions)]
    fine = [torch.randn(rows, 6, generator=rng) for rows in (images, captions)]
    lengths = torch.randint(1, 4, (captions,), generator=rng)
    words = [torch.randn(images, 5, generator=rng), Words(torch.randn(int(lengths.sum()), 5, generator=rng), lengths)]
    seen, read = zip(coarse, fine, words, strict=True)
    return Several(seen, WEIGHTS), Several(read, WEIGHTS), [product, product, of_words]


def matrices(seen, read, similarities) -> list[np.ndarray]:
    each = zip(similarities, seen.parts, read.parts, strict=True)
    return [of(one, other).double().numpy() for of, one, other in each]


def whole(scores: Scores) -> np.ndarray:
    return torch.cat([strip for _, strip in scores.blocks()]).numpy()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("memory", [0, 64])
def test_fused_scores_are_those_of_a_loop_over_queries_both_ways(rule, memory):
    seen, read, similarities = models(3)
    scores = Scores.from_sides(seen, read, Fused(similarities, rule), memory=memory)
    members = matrices(seen, read, similarities)
    expected = naive.fused([one.tolist() for one in members], ORACLES[rule], WEIGHTS)
    np.testing.assert_allclose(whole(scores), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(Fused(similarities, rule)(seen, read), expected, rtol=1e-5, atol=1e-6)
    turned = naive.fused([one.T.tolist() for one in members], ORACLES[rule], WEIGHTS)
    np.testing.assert_allclose(whole(scores.transposed()), turned, rtol=1e-5, atol=1e-6)


def test_several_strips_give_what_one_gives():
    seen, read, similarities = models(5, images=600, captions=30)
    scores = Scores.from_sides(seen, read, Fused(similarities, "rrf"))
    assert len(list(scores.strips())) == 3
    members = [torch.from_numpy(one).float() for one in matrices(seen, read, similarities)]
    expected = Scores.fused([Scores.dense(one) for one in members], Fused(similarities, "rrf").combine(WEIGHTS))
    np.testing.assert_array_equal(whole(scores), whole(expected))


def test_weights_of_the_sides_count_in_the_mean_and_in_the_vectors_side_by_side():
    seen, read, similarities = models(7)
    seen, read = (Several(side.parts[:2], (0.75, 0.25)) for side in (seen, read))
    one, other = matrices(seen, read, similarities[:2])
    expected = 0.75 * one + 0.25 * other
    np.testing.assert_allclose(MeanScore(similarities[:2])(seen, read).numpy(), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(product(pooled(seen), pooled(read)).numpy(), expected, rtol=1e-5, atol=1e-5)
    assert seen[2:5].weights == (0.75, 0.25)


@pytest.mark.parametrize("rule", ["zscore", "rrf"])
def test_a_model_that_scores_everything_alike_says_nothing(rule):
    rng = torch.Generator().manual_seed(1)
    told, flat = torch.randn(5, 9, generator=rng), torch.full((5, 9), 0.1)
    combine = Fused([product, product], rule).combine(None)
    order = combine([told, flat]).argsort(dim=1)
    assert torch.equal(order, told.argsort(dim=1))


@pytest.mark.parametrize("rule", ["zscore", "rrf"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_scores_that_are_not_finite_are_refused_and_get_no_rank(rule, value):
    with pytest.raises(InputError, match="not finite"):
        RULES[rule](torch.tensor([[0.0, value, 1.0]]))


def test_too_little_memory_for_a_strip_is_said():
    side = Several((torch.randn(4000, 2), torch.randn(4000, 2)))
    with pytest.raises(UsageError, match=r"evaluate\.memory: 1 MiB is too little to rank 4000 against 4000"):
        Scores.from_sides(side, side, Fused([product, product], "rrf"), memory=1)
