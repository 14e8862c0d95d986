import pytest
import torch

from vse_pipe.core.errors import InputError
from vse_pipe.train.batch import LossTerms, Scored


@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (4,), (2, 2, 2)])
def test_scores_that_are_no_batch_of_pairs_are_refused(shape):
    with pytest.raises(InputError, match=r"square scores of at least 2 pairs, got shape"):
        Scored.of(torch.ones(shape))


def test_without_owners_every_pair_has_an_image_of_its_own():
    batch = Scored.of(torch.ones(3, 3), mask_same_image=True)
    assert torch.equal(batch.same, torch.eye(3, dtype=torch.bool))
    assert batch.owners.unique().numel() == 3


def test_captions_of_the_same_image_are_masked_only_on_request():
    owners = torch.tensor([7, 2, 7])
    assert torch.equal(Scored.of(torch.ones(3, 3), owners).same, torch.eye(3, dtype=torch.bool))
    masked = Scored.of(torch.ones(3, 3), owners, mask_same_image=True).same
    assert masked.tolist() == [[True, False, True], [False, True, False], [True, False, True]]


@pytest.mark.parametrize(("reduction", "expected"), [("sum", 6.0), ("mean", 2.0)])
def test_reduction(reduction, expected):
    assert LossTerms(torch.tensor([1.0, 2.0, 3.0]), reduction).total().item() == expected
