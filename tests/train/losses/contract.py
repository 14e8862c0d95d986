"""What holds for every loss; a member's test file calls these with its module."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import strategies as st

from vse_pipe.core.errors import InputError
from vse_pipe.train.scored import LossTerms, Scored

ORDER = torch.randperm(7, generator=torch.Generator().manual_seed(1))
# Seven pairs of four images; the image 30 has three captions in the batch, 11 and 12 have one.
OWNERS = torch.tensor([30, 11, 30, 25, 30, 12, 25])
# What batches are drawn by; ``owners`` has one for every pair that there may be.
DRAWN = {
    "pairs": st.integers(2, 9),
    "seed": st.integers(0, 50),
    "owners": st.lists(st.integers(0, 3), min_size=9, max_size=9),
}


def some_vectors(pairs: int = 7, seed: int = 0, dim: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit vectors of images and texts."""
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(2, pairs, dim, generator=generator, dtype=torch.float64)
    images, texts = torch.nn.functional.normalize(vectors, dim=2)
    return images, texts


def some_scores(pairs: int = 7, seed: int = 0) -> torch.Tensor:
    images, texts = some_vectors(pairs, seed)
    return images @ texts.T


def batch_of(images: torch.Tensor, texts: torch.Tensor, owners: torch.Tensor | None = None, mask=False) -> Scored:
    return Scored.from_scores(images @ texts.T, owners, mask, images, texts)


def some_batch(pairs: int = 7, seed: int = 0, owners: torch.Tensor | None = None, mask=False) -> Scored:
    """A batch as training makes it; pairs of one owner show the same picture, hence the same vector."""
    images, texts = some_vectors(pairs, seed)
    if owners is not None:
        images = images[[owners.tolist().index(owner) for owner in owners.tolist()]]
    return batch_of(images, texts, owners, mask)


def check_contract(member, params=None, masked=None) -> None:
    """Shape, finite values and gradients, equivariance, and the refusal of a batch without negatives; of losses that read scores
    also masked cells, under the options ``masked``."""
    if masked:
        check_masked_cells(member, masked)
    params = params or member.Params()
    images, texts = (side.requires_grad_() for side in some_vectors())
    terms = member.loss(batch_of(images, texts), params)
    assert terms.per_pair.shape == (7,)
    assert torch.isfinite(terms.per_pair).all()
    reduced = terms.per_pair.sum() if terms.reduction == "sum" else terms.per_pair.mean()
    assert torch.equal(terms.total(), reduced)
    terms.total().backward()
    for side, name in ((images, "image"), (texts, "text")):
        assert torch.isfinite(side.grad).all()
        assert side.grad.any(dim=1).all(), f"every {name} must get a gradient"
    shuffled = member.loss(batch_of(images.detach()[ORDER], texts.detach()[ORDER]), params)
    torch.testing.assert_close(shuffled.per_pair, terms.per_pair.detach()[ORDER])
    with pytest.raises(InputError, match="square scores of at least 2 pairs"):
        member.loss(Scored.from_scores(torch.ones(1, 1)), params)
    check_owners(member, params)


def check_owners(member, params) -> None:
    """Distinct owners change nothing; with shared ones pairs keep their own term under permutation."""
    images, texts = some_vectors()
    expected = member.loss(batch_of(images, texts), params).per_pair
    distinct = member.loss(batch_of(images, texts, torch.arange(7) * 3 + 5, mask=True), params).per_pair
    torch.testing.assert_close(distinct, expected)
    batch = some_batch(owners=OWNERS, mask=True)
    moved = batch_of(batch.images[ORDER], batch.texts[ORDER], OWNERS[ORDER], mask=True)
    torch.testing.assert_close(member.loss(moved, params).per_pair, member.loss(batch, params).per_pair[ORDER])
    alone = some_batch(owners=torch.zeros(7, dtype=torch.int64), mask=True)
    images, texts = (side.clone().requires_grad_() for side in (alone.images, alone.texts))
    terms = member.loss(batch_of(images, texts, alone.owners, mask=True), params)
    assert torch.isfinite(terms.per_pair).all(), "a batch of one image has no negatives, and no NaN"
    if terms.total().requires_grad:
        terms.total().backward()
        assert all(torch.isfinite(side.grad).all() for side in (images, texts))


def check_masked_cells(member, params) -> None:
    """A cell of ``same`` off the diagonal is neither negative nor positive."""
    scores = some_batch(owners=OWNERS).scores.clone().requires_grad_()
    batch = Scored.from_scores(scores, OWNERS, mask_same_image=True)
    masked = batch.same & ~torch.eye(7, dtype=torch.bool)
    terms = member.loss(batch, params)
    terms.total().backward()
    assert torch.isfinite(scores.grad).all()
    assert (scores.grad[masked] == 0).all()
    assert scores.grad[~masked].any()
    other = member.loss(Scored.from_scores(scores.detach().masked_fill(masked, 5.0), OWNERS, True), params)
    torch.testing.assert_close(other.per_pair, terms.per_pair.detach())
    counted = member.loss(Scored.from_scores(scores.detach().masked_fill(masked, 0.9), OWNERS), params)
    assert not torch.allclose(counted.per_pair, terms.per_pair.detach()), "unmasked, the same cells are negatives"


def check_slope(loss: Callable[[Scored], LossTerms], scores: torch.Tensor) -> None:
    """Of a loss that reads scores."""
    assert torch.autograd.gradcheck(lambda s: loss(Scored.from_scores(s)).per_pair, scores.clone().requires_grad_())
