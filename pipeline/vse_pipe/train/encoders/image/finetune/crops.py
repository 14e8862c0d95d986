"""Random crops and mirror images, as CNNs are trained on them."""

import math

import numpy as np
from PIL import Image

_AREA = (0.08, 1.0)
_RATIO = (3 / 4, 4 / 3)
_TRIES = 10
Box = tuple[int, int, int, int]


def random_box(width: int, height: int, rng: np.random.Generator) -> Box:
    """(left, top, right, bottom) in pixels: 8 to 100 % of the image's area, 3:4 to 4:3, anywhere in it.

    Source: torchvision's RandomResizedCrop with its defaults, as the VSE++ code uses it (after Szegedy et al., 2015): ten
    tries, then the largest centred box of an admissible shape. The draws come from numpy's generator, so the boxes are
    distributed alike but are not the same.
    """
    for _ in range(_TRIES):
        area = width * height * rng.uniform(*_AREA)
        ratio = math.exp(rng.uniform(math.log(_RATIO[0]), math.log(_RATIO[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(rng.integers(width - w + 1)), int(rng.integers(height - h + 1))
            return left, top, left + w, top + h
    return _central(width, height)


def _central(width: int, height: int) -> Box:
    w, h = width, height
    if width / height < _RATIO[0]:
        h = round(width / _RATIO[0])
    elif width / height > _RATIO[1]:
        w = round(height * _RATIO[1])
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


def random_crop(image: Image.Image, size: int, resampling: Image.Resampling, rng: np.random.Generator) -> np.ndarray:
    """uint8 (1, size, size, 3) of a random box of an RGB image.

    Cut first, then scaled: scaling with ``box=`` would let pixels from outside of the box in, and torchvision does not.
    """
    cut = image.crop(random_box(*image.size, rng))
    return np.asarray(cut.resize((size, size), resampling))[None]


def mirrored(pixels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(crops, height, width, 3) as they are or, every second time, with left and right exchanged."""
    return pixels[:, :, ::-1] if rng.random() < 0.5 else pixels
