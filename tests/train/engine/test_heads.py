"""Normalisations, and numbers or elements that are left out at random."""

import pytest
import torch

from vse_pipe.train.heads import l2norm, l2norm_eps, normalize, thinned, without_some


@pytest.mark.parametrize(("norm", "length"), [(l2norm, 1.0), (l2norm_eps, 1e-8 / 2e-8), (normalize, 1.0)])
def test_a_short_vector(norm, length):
    vectors = torch.tensor([[6e-9, 8e-9]], dtype=torch.float64)
    assert norm(vectors).norm().item() == pytest.approx(length)
    torch.testing.assert_close(norm(vectors) / length, torch.tensor([[0.6, 0.8]], dtype=torch.float64))


@pytest.mark.parametrize(("norm", "length"), [(l2norm, 1.0), (normalize, 1e-3)])
def test_only_the_two_branch_norm_has_a_floor(norm, length):
    vectors = torch.tensor([[6e-16, 8e-16]], dtype=torch.float64)
    assert norm(vectors).norm().item() == pytest.approx(length)


@pytest.mark.parametrize("norm", [l2norm, l2norm_eps, normalize])
def test_zero_rows_stay_zero_and_their_gradient_is_finite(norm):
    vectors = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    norm(vectors)[:, 0].sum().backward()
    assert norm(vectors)[0].tolist() == [0.0, 0.0]
    assert torch.isfinite(vectors.grad).all()
    torch.testing.assert_close(vectors.grad[1], torch.tensor([0.128, -0.096]))


def test_the_gradient_of_a_zero_row_is_not_blown_up():
    vectors = torch.zeros(1, 3, requires_grad=True)
    l2norm(vectors).sum().backward()
    assert vectors.grad.tolist() == [[1.0, 1.0, 1.0]]


@pytest.mark.parametrize("norm", [l2norm, l2norm_eps, normalize])
def test_rows_are_those_of_the_last_dimension(norm):
    regions = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(norm(regions)[1], norm(regions[1]))


def test_the_share_goes_and_one_of_every_set_stays():
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


def test_nothing_goes_at_share_zero():
    present = torch.tensor([[True, False, True]])
    assert torch.equal(thinned(present, 0.0), present)


def test_numbers_go_and_a_vector_keeps_its_length():
    vectors = torch.randn(400, 50)
    torch.manual_seed(1)
    found = without_some(vectors, 0.3)
    assert abs((found == 0).float().mean() - 0.3) < 0.01
    torch.testing.assert_close(found.norm(dim=1), vectors.norm(dim=1))
    for row, whole in zip(found, vectors, strict=True):
        left = row != 0
        torch.testing.assert_close(row[left], whole[left] * (whole.norm() / whole[left].norm()))


def test_a_vector_of_which_nothing_would_be_left_stays_and_zero_stays_zero():
    vectors = torch.eye(200)
    vectors[0] = 0
    torch.manual_seed(1)
    assert torch.equal(without_some(vectors, 0.9), vectors)
