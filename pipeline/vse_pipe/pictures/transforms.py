"""Square crops of an RGB image, the input of a network."""

from dataclasses import asdict, dataclass

import numpy as np
from PIL import Image

from vse_pipe.core.errors import UnreadableImage

# Pixels of an image once it is scaled: one of 1 x 100,000 would else become one of 256 x 25,600,000.
LARGEST = 2**26
# With ``draft``, the least that libjpeg must leave of a picture, in multiples of the size it is then scaled to.
# Measured on mosaics of photographs with SqueezeNet 1.1: at 2 the features' cosine is 0.9998, at 1 it falls to 0.988.
MARGIN = 2
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


@dataclass(frozen=True)
class Transform:
    """Every choice made. The arithmetic is that of torchvision's Resize, CenterCrop and FiveCrop on Pillow images;
    the mirror images are those of the five crops, where TenCrop cuts the mirrored image anew.
    """

    image_size: int
    resize: int
    resize_mode: str
    interpolation: str
    crops: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    draft: bool = False

    def pixels(self, image: Image.Image, size: tuple[int, int] | None = None) -> np.ndarray:
        """uint8 (crops, image_size, image_size, 3): one centre crop, or corners, centre and their mirror images.

        size: of the whole image, where ``image`` is a reduced version of it. Raises UnreadableImage when its sides are
        so unequal that it would be scaled to more than ``LARGEST`` pixels.
        """
        width, height = self._scaled(*(size or image.size))
        if width * height > LARGEST:
            raise UnreadableImage("", f"has sides too unequal: it would be scaled to {width} x {height}")
        resized = image.resize((width, height), FILTERS[self.interpolation])
        side = self.image_size
        right, bottom = resized.width - side, resized.height - side
        centre = self._centre(*resized.size)
        if self.crops == "center":
            return _cropped(resized, centre, side)[None]
        corners = [(0, 0), (right, 0), (0, bottom), (right, bottom)]
        pixels = np.stack([_cropped(resized, corner, side) for corner in [*corners, centre]])
        return np.concatenate([pixels, pixels[:, :, ::-1]])

    def enough(self, width: int, height: int) -> tuple[int, int] | None:
        """The smallest size to which a picture may be reduced before scaling; None: full size."""
        if not self.draft:
            return None
        wide, high = self._scaled(width, height)
        return MARGIN * wide, MARGIN * high

    def window(self, width: int, height: int) -> tuple[float, float, float, float]:
        """The centre crop's edges x1, y1, x2, y2 in pixels of an image of that size, before it was resized."""
        wide, high = self._scaled(width, height)
        x, y = self._centre(wide, high)
        across, down = width / wide, height / high
        size = self.image_size
        return x * across, y * down, (x + size) * across, (y + size) * down

    def _centre(self, width: int, height: int) -> tuple[int, int]:
        return round((width - self.image_size) / 2), round((height - self.image_size) / 2)

    def _scaled(self, width: int, height: int) -> tuple[int, int]:
        if self.resize_mode == "exact":
            return self.resize, self.resize
        shorter = min(width, height)
        # The longer side is cut, not rounded, as in torchvision.
        return int(self.resize * width / shorter), int(self.resize * height / shorter)

    def about(self) -> dict:
        values = asdict(self)
        if not self.draft:  # models and features of earlier versions lack the key
            del values["draft"]
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def _cropped(image: Image.Image, corner: tuple[int, int], size: int) -> np.ndarray:
    x, y = corner
    return np.asarray(image.crop((x, y, x + size, y + size)))
