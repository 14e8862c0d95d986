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


def test_vectors_may_be_views_and_weights_zero(way):
    rng = torch.Generator().manual_seed(1)
    images, texts = torch.rand(7, 6, generator=rng).t(), torch.rand(7, 4, generator=rng).t()
    parts = [one.requires_grad_() for one in (images, texts)]
    scores = member.score(*parts, member.Params())
    (scores[2, 1] * 3).backward()  # all other weights are 0
    above = (texts[1] - images[2]).relu().detach()
    expected = 3 * above / above.norm()
    assert torch.allclose(parts[1].grad[1], -expected)
    assert torch.allclose(parts[0].grad[2], expected)
    assert parts[0].grad.count_nonzero() == parts[1].grad.count_nonzero() == above.count_nonzero()


def test_no_number_is_no_perfect_score_and_there_may_be_no_images_and_no_texts(way):
    images, texts = torch.rand(2, 3), torch.rand(2, 3)
    images[0, 1] = math.nan
    assert member.score(images, texts, member.Params()).isnan().tolist() == [[True, True], [False, False]]
    for counts in ((0, 2), (2, 0)):
        assert member.score(*(torch.rand(count, 3) for count in counts), member.Params()).shape == counts


def test_vectors_of_other_lengths_are_refused():
    with pytest.raises(ValueError, match="images have 8 numbers and texts 4"):
        order._Violations.apply(torch.rand(2, 8), torch.rand(3, 4))


@pytest.mark.parametrize("frozen", [0, 1])
def test_a_frozen_side_has_no_gradient(frozen, way):
    sides = [torch.rand(2, 3), torch.rand(4, 3)]
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
