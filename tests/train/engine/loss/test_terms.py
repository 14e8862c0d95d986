import pytest
import torch

from vse_pipe.train.engine.loss.terms import LossTerms


@pytest.mark.parametrize(("reduction", "expected"), [("sum", 6.0), ("mean", 2.0)])
def test_reduction(reduction, expected):
    assert LossTerms(torch.tensor([1.0, 2.0, 3.0]), reduction).total().item() == expected
