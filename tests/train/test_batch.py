import pytest
import torch

from tests.naive import losses as naive
from tests.train.losses.contract import OWNERS, some_batch, some_scores
from vse_pipe.core.errors import InputError
from vse_pipe.project.registry import LOSSES
from vse_pipe.train.batch import LossTerms, Scored, sample_losses


@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (4,), (2, 2, 2)])
def test_scores_that_are_no_batch_of_pairs_are_refused(shape):
    with pytest.raises(InputError, match=r"square scores of at least 2 pairs, got shape"):
        Scored.from_scores(torch.ones(shape))


def test_without_owners_every_pair_has_an_image_of_its_own():
    batch = Scored.from_scores(torch.ones(3, 3), mask_same_image=True)
    assert torch.equal(batch.same, torch.eye(3, dtype=torch.bool))
    assert batch.owners.unique().numel() == 3


def test_captions_of_the_same_image_are_masked_only_on_request():
    owners = torch.tensor([7, 2, 7])
    assert torch.equal(Scored.from_scores(torch.ones(3, 3), owners).same, torch.eye(3, dtype=torch.bool))
    masked = Scored.from_scores(torch.ones(3, 3), owners, mask_same_image=True).same
    assert masked.tolist() == [[True, False, True], [False, True, False], [True, False, True]]


@pytest.mark.parametrize(("reduction", "expected"), [("sum", 6.0), ("mean", 2.0)])
def test_reduction(reduction, expected):
    assert LossTerms(torch.tensor([1.0, 2.0, 3.0]), reduction).total().item() == expected


@pytest.mark.parametrize("mask", [False, True])
def test_mean_counts_every_cell_of_the_batch(mask):
    batch = some_batch(owners=OWNERS, mask=mask)
    summed = naive.hinge(batch.scores.tolist(), 0.4, hardest=False, same=batch.same.tolist())
    expected = torch.tensor(summed, dtype=torch.float64) / 7
    torch.testing.assert_close(sample_losses(batch, 0.4), expected)


def test_hardest_is_the_share_in_the_loss_max():
    batch = Scored.from_scores(some_scores(9, 2))
    member = LOSSES.load("max")
    torch.testing.assert_close(sample_losses(batch, hardest=True), member.loss(batch, member.Params()).per_pair)
    assert (sample_losses(batch) <= sample_losses(batch, hardest=True)).all()


def test_a_mismatched_pair_stands_out():
    scores = torch.eye(6) * 0.8
    scores[2, 2] = 0.0
    assert sample_losses(Scored.from_scores(scores)).argmax() == 2
