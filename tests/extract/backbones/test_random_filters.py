"""Random filters against a plain loop, and the properties that make their maxima usable as features."""

import numpy as np
import torch

from vse_pipe.extract.backbones.options import RandomFiltersOptions as Params
from vse_pipe.extract.backbones.random_filters import build

SMALL = Params(filters=4, size=3, stride=2, image_size=9)


def naive(image: np.ndarray, filters: np.ndarray, stride: int) -> list[float]:
    """image: (3, S, S). Strongest response of every filter and of its negative, their mean subtracted."""
    size, places, best = filters.shape[-1], range(0, image.shape[-1] - filters.shape[-1] + 1, stride), []
    for one in [*filters, *(-filters)]:
        windows = [image[:, y : y + size, x : x + size].ravel() for y in places for x in places]
        best.append(max(sum(float(a) * float(b) for a, b in zip(w, one.ravel(), strict=True)) for w in windows))
    return [value - sum(best) / len(best) for value in best]


def test_matches_the_loop():
    """Vectors have mean zero and the promised width."""
    backbone = build(SMALL, seed=1)
    pixels = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 1, 9, 9, 3), dtype=np.uint8))
    found = backbone.module(pixels)
    assert (found.shape, backbone.about["dimensions"]) == ((3, 8), 8)
    torch.testing.assert_close(found.mean(dim=1), torch.zeros(3), atol=1e-6, rtol=0.0)
    filters = backbone.module.net.conv.weight.numpy()
    for row, image in zip(found.numpy(), pixels[:, 0].numpy().transpose(0, 3, 1, 2), strict=True):
        np.testing.assert_allclose(row, naive(image / 127.5 - 1, filters, 2), atol=1e-5)


def test_filters_are_unit_and_fixed_by_the_seed_alone():
    network = build(Params(), seed=1).module
    torch.testing.assert_close(network.net.conv.weight.flatten(1).norm(dim=1), torch.ones(256))
    assert not any(parameter.requires_grad for parameter in network.parameters())
    state = torch.random.get_rng_state()
    first, again, other = (build(SMALL, seed=seed).module.net.conv.weight for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
