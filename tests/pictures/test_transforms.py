"""Transforms against a literal implementation and against torchvision's own."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import nn
from torchvision import transforms as v1
from torchvision.transforms import v2

from tests.naive import extract as naive
from vse_pipe.core.errors import UsageError
from vse_pipe.extract.backbones.options import ImageParams
from vse_pipe.extract.networks import Extractor, Recipe, resolve
from vse_pipe.pictures.transforms import Transform

PUBLISHED = Recipe(224, 256, "bilinear", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def transform(**changes) -> Transform:
    return resolve(ImageParams(**{"image_size": 8, "resize": 10, **changes}), PUBLISHED)


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize(("width", "height"), [(23, 14), (9, 31), (10, 10), (5, 6)])
def test_equals_the_literal_implementation(width: int, height: int, interpolation: str) -> None:
    image = noise(width, height)
    found = transform(interpolation=interpolation, crops="ten").pixels(image)
    size = naive.scaled_size(width, height, 10)
    for channel in range(3):
        plane = np.asarray(image)[:, :, channel].tolist()
        resized = naive.resize(plane, *size, interpolation)
        crops = [naive.crop(resized, *box, 8) for box in naive.boxes(*size, 8)]
        expected = np.array(crops + [naive.mirrored(crop) for crop in crops])
        # One level: Pillow sums weights in fixed point.
        assert np.abs(found[:, :, :, channel] - expected).max() <= 1


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 60),
    st.integers(1, 60),
    st.integers(1, 12),
    st.integers(0, 6),
    st.sampled_from(["bilinear", "bicubic"]),
)
def test_equals_torchvision(width: int, height: int, size: int, more: int, interpolation: str) -> None:
    image = noise(width, height, seed=width)
    ours = transform(image_size=size, resize=size + more, interpolation=interpolation, crops="ten")
    resized = v2.Resize(size + more, v2.InterpolationMode(interpolation))(image)
    crops = [np.asarray(crop) for crop in v2.TenCrop(size)(resized)]
    found = ours.pixels(image)
    # torchvision mirrors the image and crops again: its sixth crop is the mirror image of our second, and its last
    # one is a pixel off the centre when the margin is odd.
    order = [0, 1, 2, 3, 4, 6, 5, 8, 7]
    assert np.array_equal(found[:9], np.stack([crops[place] for place in order]))
    assert np.array_equal(found[9], crops[4][:, ::-1])
    single = transform(image_size=size, resize=size + more, interpolation=interpolation).pixels(image)
    assert np.array_equal(single[0], np.asarray(v2.CenterCrop(size)(resized)))


def test_channels_are_scaled_and_normalised_as_torchvision_does() -> None:
    image = noise(8, 8)
    ours = Extractor(nn.Identity(), transform(resize=8))
    expected = v1.Compose([v1.ToTensor(), v1.Normalize(PUBLISHED.mean, PUBLISHED.std)])
    scaled = ours.scaled(torch.from_numpy(np.array(image))[None])
    assert torch.equal(scaled[0], expected(image))


def test_exact_scales_both_sides() -> None:
    image = noise(31, 12)
    found = transform(resize_mode="exact", resize=None).pixels(image)
    assert np.array_equal(found[0], np.asarray(image.resize((8, 8), Image.Resampling.BILINEAR)))


@pytest.mark.parametrize(
    ("options", "size", "scaled_to"),
    [
        ({}, 224, 256),
        ({"image_size": 64}, 64, 73),
        ({"image_size": 64, "resize_mode": "exact"}, 64, 64),
        ({"resize_mode": "exact"}, 224, 224),
        ({"resize_mode": "exact", "resize": 256}, 224, 256),
        ({"resize": 300}, 224, 300),
    ],
)
def test_what_is_left_out_follows_the_published_weights(options: dict, size: int, scaled_to: int) -> None:
    found = resolve(ImageParams(**options), PUBLISHED)
    assert (found.image_size, found.resize) == (size, scaled_to)
    assert (found.mean, found.interpolation) == (PUBLISHED.mean, "bilinear")


@pytest.mark.parametrize(
    ("options", "published", "message"),
    [
        ({"resize": 200}, PUBLISHED, "resize 200 is smaller than image_size 224"),
        ({}, Recipe(224, 256, "lanczos", (0.5,) * 3, (0.5,) * 3), "published with lanczos scaling"),
    ],
)
def test_refuses(options: dict, published: Recipe, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve(ImageParams(**options), published)


def test_ten_crops_are_the_mean_of_ten_networks_runs() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    ten = transform(crops="ten")
    pixels = ten.pixels(noise(30, 20))
    with torch.inference_mode():
        found = Extractor(net, ten)(torch.from_numpy(pixels)[None])[0].tolist()
        single = Extractor(net, transform())
        each = [single(torch.from_numpy(crop)[None, None])[0].tolist() for crop in pixels]
    assert found == pytest.approx(naive.mean(each), abs=1e-6)
    assert each[0] != each[5]
