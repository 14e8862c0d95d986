"""Similarities of one vector a side, against loops: cosine and order violations."""

import math

import pytest
import torch

from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.ranking.similarities import order

member, cosine = SIMILARITIES.load("order"), SIMILARITIES.load("cosine")


@pytest.fixture(params=[1 << 24, 1, 40], ids=["all at once", "one by one", "in blocks"])
def way(request, monkeypatch):
    """How many differences are made at once."""
    monkeypatch.setattr(order, "_OF_A_CPU", request.param)


@pytest.mark.parametrize("root", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_plain_loops(root, dtype, way):
    images, texts = torch.rand(3, 19, dtype=dtype), torch.rand(4, 19, dtype=dtype)
    scores = member.score(images, texts, member.Params(root=root))
    assert scores.dtype == dtype
    for i, image in enumerate(images.tolist()):
        for t, text in enumerate(texts.tolist()):
            squared = sum(max(0.0, b - a) ** 2 for a, b in zip(image, text, strict=True))
            assert scores[i, t].item() == pytest.approx(-math.sqrt(squared) if root else -squared, rel=1e-6)


@pytest.mark.parametrize("root", [True, False])
def test_its_gradient_is_that_of_differences(root):
    images, texts = (torch.rand(rows, 7, dtype=torch.float64, requires_grad=True) for rows in (5, 3))
    assert torch.autograd.gradcheck(lambda a, b: member.score(a, b, member.Params(root=root)), (images, texts))


@pytest.mark.parametrize("frozen", [0, 1])
def test_a_frozen_side_has_no_gradient(frozen, way):
    sides = [torch.rand(2, 3), torch.rand(4, 3) + 0.5]
    sides[1 - frozen].requires_grad_()
    member.score(*sides, member.Params()).sum().backward()
    assert sides[frozen].grad is None
    assert sides[1 - frozen].grad.any()


def test_it_is_not_symmetric_and_no_violation_passes_no_nan_back():
    general, specific = torch.tensor([[0.1, 0.2]]), torch.tensor([[0.3, 0.4]])
    assert member.score(specific, general, member.Params()).item() == 0
    assert member.score(general, specific, member.Params()).item() < 0
    images, texts = torch.ones(2, 3, requires_grad=True), torch.zeros(2, 3, requires_grad=True)
    member.score(images, texts, member.Params()).sum().backward()
    assert images.grad.eq(0).all()
    assert texts.grad.eq(0).all()


def test_cosines_have_images_for_rows_and_texts_for_columns():
    images, texts = (torch.nn.functional.normalize(torch.randn(rows, 5), dim=1) for rows in (3, 4))
    expected = torch.nn.functional.cosine_similarity(images[:, None], texts[None], dim=2)
    torch.testing.assert_close(cosine.score(images, texts, cosine.Params()), expected)
