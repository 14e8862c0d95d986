"""Crops of pictures, and pictures drawn at a smaller size."""

import io
from pathlib import Path

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
from vse_pipe.core.devices import seeded
from vse_pipe.core.errors import UsageError
from vse_pipe.extract.backbones.options import ImageParams
from vse_pipe.extract.networks import Extractor, RandomFilters, Recipe, resolve
from vse_pipe.pictures import images
from vse_pipe.pictures.images import Item, Transform
from vse_pipe.train.pictures import transform as finetune_transform

PUBLISHED = Recipe(224, 256, "bilinear", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def transform(**changes) -> Transform:
    return resolve(ImageParams(**{"image_size": 8, "resize": 10, **changes}), PUBLISHED)


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


SIDES = st.integers(1, 60)


@settings(max_examples=20)
@given(SIDES, SIDES, st.integers(1, 12), st.integers(0, 6), st.sampled_from(["bilinear", "bicubic"]))
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


@pytest.mark.parametrize(
    ("options", "size", "scaled_to"),
    [
        *[({}, 224, 256), ({"image_size": 64}, 64, 73), ({"resize": 300}, 224, 300)],
        *[({"resize_mode": "exact"}, 224, 224), ({"resize_mode": "exact", "resize": 256}, 224, 256)],
        ({"image_size": 64, "resize_mode": "exact"}, 64, 64),
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


def made(draft: bool, resize: int = 72, mode: str = "shorter") -> Transform:
    return Transform(64, resize, mode, "bilinear", "center", (0.5,) * 3, (0.25,) * 3, draft)


def rendered(width: int, height: int, seed: int) -> Image.Image:
    """Detail of every size, as photographs have it: noise at seven scales, the coarser the stronger."""
    rng = np.random.default_rng(seed)
    picture = np.zeros((height, width, 3))
    for step in range(7):
        small = rng.normal(size=(-(-height >> step) or 1, -(-width >> step) or 1, 3)).astype(np.float32)
        planes = [Image.fromarray(small[..., c]).resize((width, height), Image.Resampling.BICUBIC) for c in range(3)]
        picture += np.stack(planes, axis=-1) * 2**step
    return Image.fromarray((127 + picture).clip(0, 255).astype(np.uint8))


def jpeg(image: Image.Image, **options) -> bytes:
    file = io.BytesIO()
    image.save(file, **{"format": "JPEG", "quality": 90, **options})
    return file.getvalue()


def test_the_tolerance_that_the_documentation_states(tmp_path: Path) -> None:
    """Features of random filters, unit length: cosine at least 0.999, no value further off than 0.02."""
    arrays = {True: [], False: []}
    for seed in range(4):
        (tmp_path / f"{seed}.jpg").write_bytes(jpeg(rendered(667, 501, seed)))
        for draft, found in arrays.items():
            found.append(images.pixels(tmp_path, Item(seed, f"{seed}.jpg", "", ""), made(draft)))
    network = Extractor(seeded(lambda: RandomFilters(64, 7, 2), 1, "test"), made(False)).eval()
    stacked = [torch.from_numpy(np.stack(found)) for found in arrays.values()]
    with torch.inference_mode():
        reduced, whole = (nn.functional.normalize(network(found)) for found in stacked)
    assert not torch.equal(reduced, whole)
    assert (reduced * whole).sum(1).min() > 0.999
    assert (reduced - whole).abs().max() < 0.02


def test_models_and_features_say_whether_it_was_used() -> None:
    assert "draft" not in made(False).about()
    for choice in (made(True), made(False)):
        assert finetune_transform({"transform": choice.about()}) == choice
