"""pipeline/vse_pipe/train/engine/encoder/norm.py"""

import pytest
import torch

from vse_pipe.train.engine.encoder.norm import l2norm, l2norm_eps, normalize


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
