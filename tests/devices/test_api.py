"""The Python door computes where its tensors lie."""

import numpy as np
import torch

import vse_pipe as vp

IMAGES, TEXTS = torch.randn(2, 12, 4, generator=torch.Generator().manual_seed(1))


def test_a_ranking_and_its_lists_are_those_of_the_cpu(device):
    for criterion in ("nns", "csls", "is", "nnn"):
        result = vp.rank(IMAGES.to(device), TEXTS.to(device), criterion=criterion)
        expected = vp.rank(IMAGES, TEXTS, criterion=criterion)
        assert result.metrics() == expected.metrics()
        values, items = result.top(3, "text_to_image")
        assert {values.device.type, items.device.type} == {device.type}
        assert torch.equal(items.cpu(), expected.top(3, "text_to_image")[1])
    corrected = vp.correct(IMAGES.to(device), TEXTS.to(device))
    assert corrected.items.device.type == device.type
    np.testing.assert_allclose(corrected.items.cpu(), vp.correct(IMAGES, TEXTS).items, atol=1e-5)
    counts = vp.hubness((TEXTS @ IMAGES.T).to(device), k=3)["occurrence"]
    assert counts.tolist() == vp.hubness(TEXTS @ IMAGES.T, k=3)["occurrence"].tolist()


def test_a_loss_is_computed_there(device):
    for loss in (vp.losses.HAL(), vp.losses.MAX(), vp.losses.Structure()):
        images = IMAGES.to(device).requires_grad_()
        value = loss(images, TEXTS.to(device), owners=torch.arange(12) // 2)
        value.backward()
        assert value.device.type == images.grad.device.type == device.type
        torch.testing.assert_close(value.detach().cpu(), loss(IMAGES, TEXTS, owners=torch.arange(12) // 2))
