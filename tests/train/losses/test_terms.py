import pytest
import torch

from pipeline.errors import InputError
from pipeline.train.losses._terms import LossTerms, require_negatives


@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (4,), (2, 2, 2)])
def test_scores_that_are_no_batch_of_pairs_are_refused(shape):
    with pytest.raises(InputError, match=r"square scores of at least 2 pairs, got shape"):
        require_negatives(torch.ones(shape))


@pytest.mark.parametrize(("reduction", "expected"), [("sum", 6.0), ("mean", 2.0)])
def test_reduction(reduction, expected):
    assert LossTerms(torch.tensor([1.0, 2.0, 3.0]), reduction).total().item() == expected
