"""JPEGs read at a part of their size: when, with which pixels, and how far from the whole picture's features."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vse_pipe.core.devices import seeded
from vse_pipe.extract.networks import Extractor, RandomFilters
from vse_pipe.pictures import images
from vse_pipe.pictures.images import Item
from vse_pipe.pictures.transforms import MARGIN, Transform
from vse_pipe.train.encoders.image.finetune import transform


def made(draft: bool, resize: int = 72, mode: str = "shorter") -> Transform:
    return Transform(64, resize, mode, "bilinear", "center", (0.5,) * 3, (0.25,) * 3, draft)


def rendered(width: int, height: int, seed: int) -> Image.Image:
    """Detail of every size, as photographs have it: noise at seven scales, the coarser the stronger."""
    rng = np.random.default_rng(seed)
    picture = np.zeros((height, width, 3))
    for step in range(7):
        small = rng.normal(size=(-(-height >> step) or 1, -(-width >> step) or 1, 3))
        scaled = [
            np.asarray(
                Image.fromarray(small[..., c].astype(np.float32)).resize((width, height), Image.Resampling.BICUBIC)
            )
            for c in range(3)
        ]
        picture += np.stack(scaled, axis=-1) * 2**step
    return Image.fromarray((127 + picture).clip(0, 255).astype(np.uint8))


def jpeg(image: Image.Image, **options) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=90, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((640, 480), (320, 240)),
        ((1280, 960), (320, 240)),
        ((2000, 1500), (250, 188)),
        ((286, 287), (286, 287)),
        ((288, 400), (144, 200)),
        ((143, 999), (143, 999)),
    ],
)
def test_what_is_left_is_at_least_twice_what_is_needed(size: tuple[int, int], expected: tuple[int, int]) -> None:
    content = jpeg(Image.new("RGB", size, "red"))
    image, whole = images.reduced(content, "x", made(True).enough)
    assert image.size == expected
    assert whole == size
    assert min(image.size) >= min(MARGIN * 72, min(size))
    assert images.reduced(content, "x", made(False).enough)[0].size == size


def test_both_sides_count_where_both_are_scaled() -> None:
    content = jpeg(Image.new("RGB", (2000, 200)))
    assert images.reduced(content, "x", made(True, mode="exact").enough)[0].size == (2000, 200)


def test_other_formats_are_read_whole() -> None:
    file = io.BytesIO()
    Image.new("RGB", (640, 480)).save(file, "PNG")
    assert images.reduced(file.getvalue(), "x", made(True).enough)[0].size == (640, 480)


def test_a_turned_picture_has_the_size_that_people_see() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    image, whole = images.reduced(jpeg(rendered(640, 480, 0), exif=exif), "x", made(True).enough)
    assert (image.size, whole) == ((240, 320), (480, 640))


def test_the_tolerance_that_the_documentation_states(tmp_path: Path) -> None:
    """Features of random filters, unit length: cosine at least 0.999, no value further off than 0.02."""
    arrays = {True: [], False: []}
    for seed in range(6):
        (tmp_path / f"{seed}.jpg").write_bytes(jpeg(rendered(667, 501, seed)))
        for draft, found in arrays.items():
            found.append(images.pixels(tmp_path, Item(seed, f"{seed}.jpg", "", ""), made(draft)))
    network = Extractor(seeded(lambda: RandomFilters(64, 7, 2), 1, "test"), made(False)).eval()
    with torch.inference_mode():
        reduced, whole = (
            torch.nn.functional.normalize(network(torch.from_numpy(np.stack(found)))) for found in arrays.values()
        )
    assert not torch.equal(reduced, whole)
    assert (reduced * whole).sum(1).min() > 0.999
    assert (reduced - whole).abs().max() < 0.02


def test_models_and_features_say_whether_it_was_used() -> None:
    assert "draft" not in made(False).about()
    for choice in (made(True), made(False)):
        assert transform({"transform": choice.about()}) == choice
