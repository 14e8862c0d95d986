"""Normalisations, and numbers or elements that are left out at random."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import training as naive
from tests.train.encoders.contract import weights_of
from vse_pipe.ranking import fragments
from vse_pipe.train.heads import GPO, l2norm, thinned, without_some


@pytest.mark.parametrize("norm", [l2norm, fragments.l2norm_eps])
def test_zero_rows_stay_zero_and_their_gradient_is_finite(norm):
    vectors = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    norm(vectors)[:, 0].sum().backward()
    assert norm(vectors)[0].tolist() == [0.0, 0.0]
    assert torch.isfinite(vectors.grad).all()
    assert norm is not l2norm or vectors.grad[0].tolist() == [1.0, 0.0], "it is not blown up"
    torch.testing.assert_close(vectors.grad[1], torch.tensor([0.128, -0.096]))
    regions = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(norm(regions)[1], norm(regions[1])), "rows are those of the last dimension"


def test_the_share_goes_one_of_every_set_stays_and_a_vector_keeps_its_length():
    sizes = torch.tensor([1, 2, 40]).repeat(500)
    present = torch.arange(40) < sizes[:, None]
    torch.manual_seed(1)
    kept = thinned(present, 0.2)
    assert not (kept & ~present).any()
    assert kept.any(dim=1).all()
    assert abs(kept[sizes == 40].float().mean() - 0.8) < 0.01
    assert thinned(present, 0.999).sum(dim=1).min() == 1
    torch.manual_seed(1)
    assert torch.equal(thinned(present, 0.2), kept)
    assert torch.equal(thinned(present, 0.0), present)
    vectors = torch.randn(400, 50)
    torch.manual_seed(1)
    found = without_some(vectors, 0.3)
    assert abs((found == 0).float().mean() - 0.3) < 0.01
    torch.testing.assert_close(found.norm(dim=1), vectors.norm(dim=1))
    for row, whole in zip(found, vectors, strict=True):
        left = row != 0
        torch.testing.assert_close(row[left], whole[left] * (whole.norm() / whole[left].norm()))
    vectors = torch.eye(200)
    vectors[0] = 0
    torch.manual_seed(1)
    assert torch.equal(without_some(vectors, 0.9), vectors), "where nothing would be left, and zero stays zero"


def _gpo(seed: int = 0, size: int = 6) -> GPO:
    return GPO(torch.Generator().manual_seed(seed), size, size).double()


def _sets(sizes: list[int], dim: int = 5, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    vectors = torch.randn(len(sizes), max(sizes), dim, generator=torch.Generator().manual_seed(seed))
    return vectors.double(), torch.arange(max(sizes)) < torch.tensor(sizes)[:, None]


def _shuffled(kept: torch.Tensor, seed: int = 3) -> torch.Tensor:
    """As many of each set, anywhere in it."""
    order = torch.rand(kept.shape, generator=torch.Generator().manual_seed(seed)).argsort(dim=1)
    return kept.gather(1, order)


@settings(deadline=None, max_examples=30)
@given(sizes=st.lists(st.integers(1, 7), min_size=1, max_size=5), seed=st.integers(0, 20), anywhere=st.booleans())
def test_equals_plain_loops_whatever_the_sizes(sizes, seed, anywhere):
    gpo, (vectors, kept) = _gpo(seed), _sets(sizes, seed=seed)
    kept = _shuffled(kept) if anywhere else kept
    ours = gpo(vectors, kept)
    for own, rows, mask in zip(ours.tolist(), vectors, kept, strict=True):
        assert own == pytest.approx(naive.gpo(weights_of(gpo), rows[mask].tolist()), abs=1e-9)


def test_gradients_are_the_slopes_of_vectors_and_weights():
    gpo, (vectors, kept) = _gpo(size=2), _sets([4, 1, 3, 4], dim=2)
    kept = _shuffled(kept)
    # gradcheck moves the numbers of its inputs where they lie: those of ``gpo`` too.
    inputs = vectors.requires_grad_(), *gpo.parameters()
    assert torch.autograd.gradcheck(lambda vectors, *_: gpo(vectors, kept), inputs)
    gpo(vectors, kept).sum().backward()
    assert not vectors.grad[~kept].any(), "what is left out gets no gradient"
