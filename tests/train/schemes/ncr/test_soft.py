import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import soft as naive
from tests.train.losses.contract import some_scores
from vse_pipe.train.engine.loss.scored import Scored
from vse_pipe.train.schemes.ncr.soft import predicted, refined, soft_margins, soft_triplets

SHAPES = ["exponential", "linear", "sin"]
CASE = {"pairs": st.integers(2, 23), "seed": st.integers(0, 50), "margin": st.floats(0.05, 2)}


def _equal(ours: torch.Tensor, theirs: list[float]) -> None:
    torch.testing.assert_close(ours, torch.tensor(theirs, dtype=ours.dtype))


@settings(deadline=None, max_examples=20)
@given(**CASE)
def test_predictions_equal_plain_loops(pairs, seed, margin):
    scores = some_scores(pairs, seed)
    _equal(predicted(Scored.of(scores), margin), naive.predicted(scores.tolist(), margin))


def test_a_batch_in_which_nothing_fits_has_predictions_of_zero():
    scores = torch.ones(5, 5) - 2 * torch.eye(5)
    assert predicted(Scored.of(scores), 0.2).tolist() == [0.0] * 5


def test_pairs_that_beat_all_negatives_fit_wholly():
    assert predicted(Scored.of(torch.eye(4)), 0.2).tolist() == [1.0] * 4


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_refined_labels_equal_plain_loops(variant):
    clean, prediction = torch.tensor([0.9, 0.5, 1.0, 0.6]), torch.tensor([0.1, 0.7, 0.3, 1.0])
    expected = naive.refined(clean.tolist(), prediction.tolist(), variant == "code")
    _equal(refined(clean, prediction, variant), expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_margins_equal_plain_loops_and_end_at_0_and_the_margin(shape):
    labels = torch.tensor([0.0, 0.2, 0.5, 0.9, 1.0], dtype=torch.float64)
    ours = soft_margins(labels, 0.3, shape)
    _equal(ours, [naive.soft_margin(label, 0.3, shape) for label in labels.tolist()])
    torch.testing.assert_close(ours[[0, -1]], torch.tensor([0.0, 0.3], dtype=torch.float64))
    assert (ours.diff() > 0).all()


@pytest.mark.parametrize("variant", ["paper", "code"])
@settings(deadline=None, max_examples=20)
@given(**CASE)
def test_soft_triplets_equal_plain_loops(variant, pairs, seed, margin):
    scores = some_scores(pairs, seed)
    margins = margin * torch.rand(pairs, dtype=scores.dtype, generator=torch.Generator().manual_seed(seed))
    expected = naive.soft_triplets(scores.tolist(), margins.tolist(), variant == "code")
    _equal(soft_triplets(Scored.of(scores), margins, variant), expected)


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_with_equal_margins_they_are_the_hardest_triplets(variant):
    from vse_pipe.train.losses.max import loss as triplet

    batch = Scored.of(some_scores(6))
    expected = triplet.loss(batch, triplet.Params(margin=0.4)).per_pair
    margins = torch.full((6,), 0.4, dtype=expected.dtype)
    torch.testing.assert_close(soft_triplets(batch, margins, variant), expected)
