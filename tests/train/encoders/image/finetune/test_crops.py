import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torchvision.transforms import InterpolationMode, RandomResizedCrop
from torchvision.transforms import functional as reference

from vse_pipe.train.encoders.image.finetune.crops import mirrored, random_box, random_crop


def _image(width=60, height=45):
    pixels = np.random.default_rng(1).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@given(st.integers(1, 500), st.integers(1, 500), st.integers(0, 2**32))
def test_a_box_lies_inside_the_image(width, height, seed):
    left, top, right, bottom = random_box(width, height, np.random.default_rng(seed))
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height


def test_boxes_have_the_areas_and_shapes_of_torchvision():
    rng = np.random.default_rng(0)
    boxes = np.array([random_box(640, 480, rng) for _ in range(4000)])
    w, h = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    image = Image.new("RGB", (640, 480))
    theirs = np.array([RandomResizedCrop.get_params(image, (0.08, 1.0), (3 / 4, 4 / 3)) for _ in range(4000)])
    areas, their_areas = w * h / (640 * 480), theirs[:, 2] * theirs[:, 3] / (640 * 480)
    assert areas.min() > 0.079
    assert areas.max() <= 1
    assert (w / h).min() > 0.74
    assert (w / h).max() < 1.35
    levels = [0.1, 0.3, 0.5, 0.7, 0.9]
    assert np.abs(np.quantile(areas, levels) - np.quantile(their_areas, levels)).max() < 0.05
    assert np.abs(np.quantile(w / h, levels) - np.quantile(theirs[:, 3] / theirs[:, 2], levels)).max() < 0.05
    assert np.abs(np.quantile(boxes[:, 0], levels) - np.quantile(theirs[:, 1], levels)).max() < 20


@pytest.mark.parametrize(
    ("size", "box"), [((5, 1000), (0, 496, 5, 503)), ((1000, 6), (496, 0, 504, 6))], ids=["narrow", "flat"]
)
def test_an_image_of_no_admissible_shape_gives_its_middle(size, box):
    assert random_box(*size, np.random.default_rng(0)) == box


@pytest.mark.parametrize("name", ["bilinear", "bicubic"])
def test_a_crop_is_cut_and_scaled_as_torchvision_does(name):
    left, top, right, bottom = random_box(60, 45, np.random.default_rng(3))
    expected = reference.resized_crop(
        _image(), top, left, bottom - top, right - left, [16, 16], InterpolationMode(name)
    )
    found = random_crop(_image(), 16, Image.Resampling[name.upper()], np.random.default_rng(3))
    assert found.shape == (1, 16, 16, 3)
    np.testing.assert_array_equal(found[0], np.asarray(expected))


def test_about_half_of_the_images_are_mirrored_from_left_to_right():
    pixels = np.asarray(_image())[None]
    rng = np.random.default_rng(0)
    turned = 0
    for _ in range(400):
        found = mirrored(pixels, rng)
        same = np.array_equal(found, pixels)
        assert same or np.array_equal(found, pixels[:, :, ::-1])
        turned += not same
    assert 150 < turned < 250
