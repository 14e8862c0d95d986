"""Random filters against a plain loop, and the properties that make their maxima usable as features."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from tests.extract.project import pictures
from vse_pipe.extract.backbones.options import RandomFiltersOptions as Params
from vse_pipe.extract.backbones.random_filters import build
from vse_pipe.extract.networks import RandomFilters
from vse_pipe.pictures.images import Item

SMALL = Params(filters=4, size=3, stride=2, image_size=9)


def naive(image: np.ndarray, filters: np.ndarray, stride: int) -> list[float]:
    """image: (3, S, S). Strongest response of every filter and of its negative, their mean subtracted."""
    size, side = filters.shape[-1], image.shape[-1]
    best = []
    for one in [*filters, *(-filters)]:
        responses = []
        for y in range(0, side - size + 1, stride):
            for x in range(0, side - size + 1, stride):
                window = image[:, y : y + size, x : x + size]
                responses.append(sum(float(a) * float(b) for a, b in zip(window.ravel(), one.ravel(), strict=True)))
        best.append(max(responses))
    return [value - sum(best) / len(best) for value in best]


def noise(count: int, side: int = 9) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (count, 1, side, side, 3), dtype=np.uint8))


def test_matches_the_loop():
    backbone = build(SMALL, seed=1)
    pixels = noise(3)
    found = backbone.module(pixels).numpy()
    filters = backbone.module.net.conv.weight.numpy()
    for row, image in zip(found, pixels[:, 0].numpy().transpose(0, 3, 1, 2), strict=True):
        np.testing.assert_allclose(row, naive(image / 127.5 - 1, filters, 2), atol=1e-5)


def test_filters_are_unit_and_fixed():
    network = build(Params(), seed=1).module
    norms = network.net.conv.weight.flatten(1).norm(dim=1)
    torch.testing.assert_close(norms, torch.ones(256))
    assert not any(parameter.requires_grad for parameter in network.parameters())


def test_where_a_pattern_stands_does_not_matter():
    """Shifts by whole strides on an even ground; that is what the maximum over the image is for."""
    image = torch.zeros(1, 3, 32, 32)
    image[:, :, 6:12, 8:14] = torch.rand(3, 6, 6, generator=torch.Generator().manual_seed(0))
    network = RandomFilters(16, 5, 2)
    shifted = image.roll((10, 12), dims=(2, 3))
    torch.testing.assert_close(network(shifted), network(image))
    assert not torch.allclose(network(image.flip(3)), network(image), atol=1e-3)


def test_vectors_have_mean_zero_and_the_promised_width():
    backbone = build(Params(filters=32, image_size=24), seed=1)
    found = backbone.module(noise(2, 24))
    assert found.shape == (2, 64)
    assert backbone.about["dimensions"] == 64
    torch.testing.assert_close(found.mean(dim=1), torch.zeros(2), atol=1e-6, rtol=0.0)


def test_the_seed_decides_and_the_global_generator_is_not_touched():
    state = torch.random.get_rng_state()
    weights = [build(SMALL, seed=seed).module.net.conv.weight for seed in (1, 1, 2)]
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_reads_files_of_any_size_as_squares(tmp_path):
    backbone = build(SMALL, seed=1)
    for number, size in enumerate([(40, 36), (9, 20)]):
        name = pictures(tmp_path / str(number), 1, size)[0]
        pixels = backbone.read(tmp_path / str(number), Item(1, name, "", "row 0"))
        assert (pixels.shape, pixels.dtype) == ((1, 9, 9, 3), np.uint8)


@pytest.mark.parametrize(("options", "message"), [
    ({"size": 9, "image_size": 8}, "size 9 is larger than image_size 8"),
    ({"filters": 0}, "greater than 0"),
    ({"stride": 0}, "greater than 0"),
    ({"weights": "imagenet"}, "Extra inputs are not permitted"),
])  # fmt: skip
def test_refuses(options, message):
    with pytest.raises(ValidationError, match=message):
        Params(**options)
