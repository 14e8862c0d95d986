import pytest
import torch

from tests.naive import losses as naive
from tests.train.losses.contract import OWNERS, some_batch, some_scores
from vse_pipe.project.registry import LOSSES
from vse_pipe.train.batch import Scored, sample_losses


@pytest.mark.parametrize("mask", [False, True])
def test_mean_counts_every_cell_of_the_batch(mask):
    batch = some_batch(owners=OWNERS, mask=mask)
    summed = naive.hinge(batch.scores.tolist(), 0.4, hardest=False, same=batch.same.tolist())
    expected = torch.tensor(summed, dtype=torch.float64) / 7
    torch.testing.assert_close(sample_losses(batch, 0.4), expected)


def test_hardest_is_the_share_in_the_loss_max():
    batch = Scored.of(some_scores(9, 2))
    member = LOSSES.load("max")
    torch.testing.assert_close(sample_losses(batch, hardest=True), member.loss(batch, member.Params()).per_pair)
    assert (sample_losses(batch) <= sample_losses(batch, hardest=True)).all()


def test_a_mismatched_pair_stands_out():
    scores = torch.eye(6) * 0.8
    scores[2, 2] = 0.0
    assert sample_losses(Scored.of(scores)).argmax() == 2
