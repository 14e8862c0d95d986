import math

import pytest
import torch

from pipeline.project.registry import SIMILARITIES
from pipeline.ranking.similarities.order import score as order

member = SIMILARITIES.load("order")


@pytest.mark.parametrize("root", [True, False])
@pytest.mark.parametrize("at_once", [1, 1 << 24])
def test_equals_plain_loops(root, at_once, monkeypatch):
    monkeypatch.setattr(order, "_AT_ONCE", at_once)
    images, texts = torch.rand(3, 5, dtype=torch.float64), torch.rand(4, 5, dtype=torch.float64)
    scores = member.score(images, texts, member.Params(root=root))
    for i, image in enumerate(images.tolist()):
        for t, text in enumerate(texts.tolist()):
            squared = sum(max(0.0, b - a) ** 2 for a, b in zip(image, text, strict=True))
            assert scores[i, t].item() == pytest.approx(-math.sqrt(squared) if root else -squared)


def test_it_is_not_symmetric():
    general, specific = torch.tensor([[0.1, 0.2]]), torch.tensor([[0.3, 0.4]])
    assert member.score(specific, general, member.Params()).item() == 0
    assert member.score(general, specific, member.Params()).item() < 0


def test_no_violation_passes_no_nan_back():
    images, texts = torch.ones(2, 3, requires_grad=True), torch.zeros(2, 3, requires_grad=True)
    member.score(images, texts, member.Params()).sum().backward()
    assert images.grad.eq(0).all()
    assert texts.grad.eq(0).all()
