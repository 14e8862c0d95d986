"""Decoded pictures, boxes in them, and square crops of them, the input of a network. A picture is
decoded once for consecutive boxes.
"""

import contextlib
import hashlib
import io
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import ExifTags, Image, ImageOps

from vse_pipe.core.errors import InputError, IntegrityError, UnreadableImage
from vse_pipe.pictures import read
from vse_pipe.pictures.address import Box, cut
from vse_pipe.pictures.read import decoding, open_picture

# Pixels of an image once it is scaled: one of 1 x 100,000 would else become one of 256 x
# 25,600,000.
LARGEST_SCALED = 2**26
# With ``draft``, the least that libjpeg must leave of a picture, in multiples of the size it is
# then scaled to. Measured on mosaics of photographs with SqueezeNet 1.1: at 2 the features' cosine
# is 0.9998, at 1 it falls to 0.988.
MARGIN = 2
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


@dataclass(frozen=True)
class Transform:
    """The arithmetic is that of torchvision's Resize, CenterCrop and FiveCrop on Pillow images; the
    mirror images are those of the five crops, where TenCrop cuts the mirrored image anew."""

    image_size: int
    resize: int
    resize_mode: str
    interpolation: str
    crops: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    draft: bool = False

    def pixels(self, image: Image.Image, size: tuple[int, int] | None = None, name: str = "") -> np.ndarray:
        """uint8 (crops, image_size, image_size, 3): one centre crop, or corners, centre and their
        mirror images.

        size: of the whole image, where ``image`` is a reduced version of it; name: for messages.
        Raises UnreadableImage when its sides are so unequal that it would be scaled to more than
        ``LARGEST_SCALED`` pixels.
        """
        width, height = self._scaled(*(size or image.size))
        if width * height > LARGEST_SCALED:
            raise UnreadableImage(name, f"has sides too unequal: it would be scaled to {width} x {height}")
        resized = np.asarray(image.resize((width, height), FILTERS[self.interpolation]))
        side, centre = self.image_size, self._centre(width, height)
        right, bottom = width - side, height - side
        corners = [(0, 0), (right, 0), (0, bottom), (right, bottom)] if self.crops == "ten" else []
        pixels = np.stack([resized[y : y + side, x : x + side] for x, y in [*corners, centre]])
        return np.concatenate([pixels, pixels[:, :, ::-1]]) if corners else pixels

    def enough(self, width: int, height: int) -> tuple[int, int] | None:
        """The smallest size to which a picture may be reduced before scaling; None: full size."""
        if not self.draft:
            return None
        wide, high = self._scaled(width, height)
        return MARGIN * wide, MARGIN * high

    def window(self, width: int, height: int) -> tuple[float, float, float, float]:
        """The centre crop's edges x1, y1, x2, y2 in pixels of the image before resizing."""
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


def cropped(image: Image.Image, box: Box, name: str) -> Image.Image:
    """A copy of ``box``. Raises UnreadableImage for no area, or outside."""
    right, bottom = box.left + box.width, box.top + box.height
    if not box.width or not box.height or right > image.width or bottom > image.height:
        place, size = f"{box.width} x {box.height} at {box.left},{box.top}", f"{image.width} x {image.height}"
        raise UnreadableImage(name, f"names a box ({place}) without area or outside the picture of {size}")
    return image.crop((box.left, box.top, right, bottom))


Size = tuple[int, int]
# Readers work on the rows of a batch: many boxes of a picture follow each other. Threads wait for
# the first of them.
_decoding_whole = threading.Lock()


@dataclass(frozen=True)
class Item:
    """One row of images.parquet. sha256: hex digest of its content, empty if unknown; where: for
    messages; size: upright width and height, 0 if unknown."""

    image_id: int
    file: str
    sha256: str
    where: str
    size: tuple[int, int] = (0, 0)


def load(root: Path, item: Item) -> Image.Image:
    """The image, or box, of a row, in mode RGB. A picture is decoded once for consecutive boxes.

    Raises UnreadableImage when it is missing or does not decode, or the box is not inside,
    InputError for a name outside ``root``, IntegrityError when the file changed after ``prepare``.
    """
    address, box = cut(item.file)
    if box is None:
        return decode(_content(root, item), _name(root, item))
    with _decoding_whole:
        picture = _cached_picture(root, address, item.sha256)
    return cropped(picture, box, _name(root, item))


def pixels(root: Path, item: Item, transform: Transform) -> np.ndarray:
    """uint8 (crops, S, S, 3): the network's input for a row. Raises as ``load``."""
    return pixels_and_size(root, item, transform)[0]


def pixels_and_size(root: Path, item: Item, transform: Transform) -> tuple[np.ndarray, Size]:
    """The pixels, and width and height of the upright image or box. Raises as ``load``.

    A picture with boxes is decoded at full size, also with ``transform.draft``: one decoding serves
    all boxes, and a box does not depend on the others.
    """
    name = _name(root, item)
    if cut(item.file)[1] is None:
        image, size = reduced(_content(root, item), name, transform.enough)
    else:
        image = load(root, item)
        size = image.size
    return transform.pixels(image, size, name), size


def orientation(image: Image.Image) -> int:
    """The orientation in EXIF, 1 to 8; 1 (upright) by default. Raises Pillow's errors."""
    value: Any = image.getexif().get(ExifTags.Base.Orientation)
    return int(value) if value in range(1, 9) else 1


def header_size(image: Image.Image) -> Size:
    """The upright size of an opened picture; Pillow turns a TIFF itself."""
    return image.size if image.format == "TIFF" else upright(image.size, orientation(image))


def upright(size: Size, turned: int) -> Size:
    """The upright size of a stored ``size``. turned: ``orientation``, 5 on: exchanged."""
    return size[::-1] if turned >= 5 else size


def file_bytes(path: Path, sha256: str = "") -> bytes | None:
    """The bytes of the file with a picture; None when they cannot be read. path: as for
    ``read.at``; sha256: of images.parquet.

    Raises IntegrityError where the file has another digest: vectors and captions are of the earlier
    one."""
    address, _ = cut(str(path))
    try:
        content = read.at(Path(address))
    except (InputError, IntegrityError):
        return None
    _require_digest(content, sha256, address)
    return content


def page_bytes(path: Path, sha256: str = "") -> bytes | None:
    """``file_bytes`` for a page: a box is cut, as PNG."""
    address, box = cut(str(path))
    content = file_bytes(path, sha256)
    if box is None or content is None:
        return content
    with contextlib.suppress(InputError), io.BytesIO() as file:
        cropped(decode(content, address), box, address).save(file, "PNG")
        return file.getvalue()
    return None


def decode(content: bytes, name: str) -> Image.Image:
    """Decode to RGB. name: for messages.

    EXIF orientation is applied; an animation gives its first frame; transparent pixels become
    white; 16-bit greys keep their high byte; CMYK is converted without a colour profile. The
    authors' loaders call only ``convert("RGB")``, which differs for rotated, transparent and 16-bit
    images. Raises UnreadableImage as ``open_picture``, and for a truncated image.
    """
    return reduced(content, name, lambda width, height: None)[0]


def reduced(content: bytes, name: str, enough: Callable[[int, int], Size | None]) -> tuple[Image.Image, Size]:
    """``decode``, but libjpeg may draw a JPEG at a half, a quarter or an eighth of its size.

    enough: gives the smallest sufficient size for a stored size; None: full size. Returns the
    picture, and its full upright size.
    """
    image = open_picture(content, name)
    stored = image.size
    if (least := enough(*stored)) is not None:
        image.draft(None, least)
    is_smaller = image.size != stored
    with decoding(name):
        image.load()
        full = upright(stored, orientation(image)) if is_smaller else None
        ImageOps.exif_transpose(image, in_place=True)
        picture = _rgb(image)
    return picture, full or picture.size


def _content(root: Path, item: Item) -> bytes:
    content = read.content(root, item.file, item.where)
    _require_digest(content, item.sha256, _name(root, item))
    return content


def _require_digest(content: bytes, digest: str, name: str) -> None:
    """digest: "" where nobody knows it."""
    if digest and hashlib.sha256(content).hexdigest() != digest:
        raise IntegrityError(f"{name}: the file changed after prepare read it; run `vse-pipe prepare` again")


def _name(root: Path, item: Item) -> str:
    return f"{root / item.file} (image_id {item.image_id})"


@lru_cache(maxsize=4)
def _cached_picture(root: Path, file: str, sha256: str) -> Image.Image:
    content = read.content(root, file, file)
    _require_digest(content, sha256, str(root / file))
    return decode(content, str(root / file))


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        return _gray16(image).convert("RGB")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def _gray16(image: Image.Image) -> Image.Image:
    # Pillow's own conversion clips every value above 255 to white.
    values = np.asarray(image)
    if values.min() < 0 or values.max() > 65535:
        raise ValueError("its grey values do not fit 16 bits; save it with 8 bits a channel")
    return Image.fromarray((values.astype(np.uint32) >> 8).astype(np.uint8))
