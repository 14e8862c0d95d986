"""Image files to RGB, as people see them: upright, on white, 8 bits a channel."""

import hashlib
import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from pipeline import paths
from pipeline.errors import InputError, IntegrityError
from pipeline.extract.backbones._backbone import Item

_GRAY16 = ("I;16", "I;16L", "I;16B", "I;16N")


def load(root: Path, item: Item) -> Image.Image:
    """The image of one row, in mode RGB.

    Raises InputError when the file is missing, lies outside ``root`` or does not decode; IntegrityError when it is
    not the file that ``prepare`` saw.
    """
    path = paths.inside(root, item.file, item.where)
    name = f"{path} (image_id {item.image_id})"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}; {item.where} names it") from error
    if item.sha256 and hashlib.sha256(content).hexdigest() != item.sha256:
        raise IntegrityError(
            f"{name}: the file changed after prepare read it; restore it or run `vse-pipe prepare` again"
        )
    return decode(content, name)


def decode(content: bytes, name: str) -> Image.Image:
    """Decode to RGB. name: for messages.

    EXIF orientation is applied; the first frame of an animation is taken; transparent pixels show white; 16-bit
    greys keep their high byte; CMYK is converted without a colour profile. The authors' loaders call
    ``convert("RGB")`` only, which differs for rotated, transparent and 16-bit images.

    Raises InputError: not an image, truncated, larger than Pillow's decompression bomb limit, floating point pixels.
    """
    try:
        image = Image.open(io.BytesIO(content))
        image.load()
        ImageOps.exif_transpose(image, in_place=True)
        return _rgb(image)
    except UnidentifiedImageError as error:
        raise InputError(f"{name}: not an image of a known format ({len(content)} bytes)") from error
    # Pillow's decoders let nearly any exception out on damaged files; none may end a run without the file's name.
    except Exception as error:
        raise InputError(f"{name}: not a readable image: {str(error) or type(error).__name__}") from error


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode in _GRAY16 or image.mode == "I":
        return _gray16(image).convert("RGB")
    if image.mode == "F":
        raise ValueError(
            "its pixels are floating point numbers of unknown range; save it with 8 bits a channel"
        )
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
