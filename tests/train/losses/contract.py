"""What holds for every loss; a member's test file calls these with its module."""

import pytest
import torch

from pipeline.errors import InputError


def some_scores(pairs: int = 7, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.nn.functional.normalize(
        torch.randn(2, pairs, 5, generator=generator, dtype=torch.float64), dim=2
    )
    return vectors[0] @ vectors[1].T


def check_contract(member) -> None:
    """Shape, finite values and gradients, equivariance, and the refusal of a batch without negatives."""
    params = member.Params()
    scores = some_scores().requires_grad_()
    terms = member.loss(scores, params)
    assert terms.per_pair.shape == (7,)
    assert torch.isfinite(terms.per_pair).all()
    reduced = terms.per_pair.sum() if terms.reduction == "sum" else terms.per_pair.mean()
    assert torch.equal(terms.total(), reduced)
    terms.total().backward()
    assert torch.isfinite(scores.grad).all()
    assert scores.grad.any(dim=1).all(), "every image must get a gradient"
    assert scores.grad.any(dim=0).all(), "every text must get a gradient"

    order = torch.randperm(7, generator=torch.Generator().manual_seed(1))
    shuffled = member.loss(scores.detach()[order][:, order], params)
    torch.testing.assert_close(shuffled.per_pair, terms.per_pair.detach()[order])

    with pytest.raises(InputError, match="square scores of at least 2 pairs"):
        member.loss(torch.ones(1, 1), params)
