"""Boxes cut out of decoded pictures, each picture decoded once for the boxes that are asked for one after the other."""

import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from vse_pipe.core.errors import InputError, IntegrityError, UnreadableImage
from vse_pipe.pictures import read
from vse_pipe.pictures.address import Box, cut
from vse_pipe.pictures.read import open_picture, undecodable
from vse_pipe.pictures.transforms import Transform

# Readers work at once on as many rows as a batch has: on one picture with many boxes, or on many with few.
MOST = 32
# Of the pictures kept together; one that is larger is kept alone.
LARGEST = 2**28
_OF_PIXEL = 4  # bytes, in Pillow's memory


def cropped(image: Image.Image, box: Box, name: str) -> Image.Image:
    """A copy of ``box`` of an upright picture. Raises UnreadableImage when it has no area or reaches outside."""
    right, bottom = box.left + box.width, box.top + box.height
    place = f"{box.width} x {box.height} at {box.left},{box.top}"
    if not box.width or not box.height:
        raise UnreadableImage(name, f"names a box of no area ({place})")
    if right > image.width or bottom > image.height:
        raise UnreadableImage(
            name, f"names a box ({place}) that reaches outside the picture of {image.width} x {image.height}"
        )
    return image.crop((box.left, box.top, right, bottom))


class Decoded:
    """Pictures that threads decode and share. most: how many are kept; largest: their bytes together, but for one picture."""

    def __init__(self, most: int = MOST, largest: int = LARGEST) -> None:
        self._most, self._largest = most, largest
        self._futures: OrderedDict[Hashable, Future[Image.Image]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Image.Image]) -> Image.Image:
        """The picture of ``key``, made by whoever asks first while the others wait for it. What ``make`` raises is raised and
        not kept: each has its own message. Nobody may change the picture."""
        with self._lock:
            waiting = self._futures.get(key)
            mine: Future[Image.Image] | None = Future() if waiting is None else None
            if mine is not None:
                self._futures[key] = mine
            self._futures.move_to_end(key)
        if mine is None:
            assert waiting is not None
            return make() if waiting.exception() else waiting.result()
        try:
            picture = make()
        except BaseException as error:
            with self._lock:
                self._futures.pop(key, None)
            mine.set_exception(error)
            raise
        mine.set_result(picture)
        self._forget()
        return picture

    def _forget(self) -> None:
        with self._lock:
            while len(self._futures) > self._most or (len(self._futures) > 1 and self._bytes() > self._largest):
                self._futures.popitem(last=False)

    def _bytes(self) -> int:
        done = [one.result() for one in self._futures.values() if one.done() and not one.exception()]
        return sum(_OF_PIXEL * image.width * image.height for image in done)


Size = tuple[int, int]
_GRAY16 = ("I;16", "I;16L", "I;16B", "I;16N")
_ORIENTATION = 0x0112
_wholes = Decoded()


@dataclass(frozen=True)
class Item:
    """One row of images.parquet. sha256: hex digest of its content, empty if unknown; where: for messages."""

    image_id: int
    file: str
    sha256: str
    where: str


def load(root: Path, item: Item) -> Image.Image:
    """The image of one row, in mode RGB; the box, where ``file`` names one.

    Raises UnreadableImage when it is missing or does not decode, or the box does not lie in it, InputError when it lies
    outside ``root``, IntegrityError when it is not what ``prepare`` saw.
    """
    address, box = cut(item.file)
    return decode(*_content(root, item)) if box is None else _box(root, item, address, box)


def pixels(root: Path, item: Item, transform: Transform) -> np.ndarray:
    """uint8 (crops, S, S, 3): what a network sees of one row. Raises as ``load``."""
    return pixels_and_size(root, item, transform)[0]


def pixels_and_size(root: Path, item: Item, transform: Transform) -> tuple[np.ndarray, Size]:
    """The pixels, and width and height of the upright image, or box, that they are of. Raises as ``load``.

    A picture of which boxes are asked for is decoded whole, whatever ``transform.draft`` says: one decoding serves them all,
    and what a box gives does not depend on the others.
    """
    address, box = cut(item.file)
    if box is None:
        content, name = _content(root, item)
        image, size = reduced(content, name, transform.enough)
    else:
        name, image = _name(root, item), _box(root, item, address, box)
        size = image.size
    try:
        return transform.pixels(image, size), size
    except UnreadableImage as error:
        raise UnreadableImage(name, error.reason) from error


def upright_size(root: Path, item: Item) -> Size:
    """Width and height that ``load`` gives, by the header alone. Raises as ``load``, but for pixels that do not decode."""
    content, name = _content(root, item)
    image = open_picture(content, name)
    try:
        return upright(image.size, orientation(image))
    except Exception as error:
        raise undecodable(name, error) from error


def orientation(image: Image.Image) -> int:
    """How EXIF says that it is turned, 1 to 8; 1, upright, where it says nothing or something else. Raises whatever Pillow raises."""
    value: Any = image.getexif().get(_ORIENTATION)
    return int(value) if value in range(1, 9) else 1


def upright(size: Size, turned: int) -> Size:
    """Of a picture with ``size`` as stored. turned: as of ``orientation``; from 5 on width and height are exchanged."""
    return size[::-1] if turned >= 5 else size


def page_bytes(path: Path) -> bytes | None:
    """The bytes of a picture that a page shows, of a box as PNG; None when it is not there any more. path: as of ``read.at``."""
    address, box = cut(str(path))
    try:
        content = read.at(Path(address))
        if box is None:
            return content
        file = io.BytesIO()
        cropped(decode(content, address), box, str(path)).save(file, "PNG")
        return file.getvalue()
    except (InputError, IntegrityError):
        return None


def decode(content: bytes, name: str) -> Image.Image:
    """Decode to RGB. name: for messages.

    EXIF orientation is applied; the first frame of an animation is taken; transparent pixels show white; 16-bit
    greys keep their high byte; CMYK is converted without a colour profile. The authors' loaders call
    ``convert("RGB")`` only, which differs for rotated, transparent and 16-bit images.

    Raises UnreadableImage: not an image, truncated, more pixels than ``picture.opened`` allows, floating point pixels.
    """
    return _decoded(open_picture(content, name), name)[0]


def reduced(content: bytes, name: str, enough: Callable[[int, int], Size | None]) -> tuple[Image.Image, Size]:
    """As ``decode``, where libjpeg may draw a JPEG at a half, a quarter or an eighth of its size.

    enough: of the size as stored, the least that the picture must still have; None: all of it. Returns the picture, and
    the upright size that it would have had.
    """
    image = open_picture(content, name)
    stored = image.size
    least = enough(*stored)
    if least is not None:
        image.draft(None, least)
    smaller = image.size != stored
    picture, turned = _decoded(image, name)
    return picture, upright(stored, turned) if smaller else picture.size


def _content(root: Path, item: Item) -> tuple[bytes, str]:
    """The bytes of an item, checked, and its name for messages."""
    name = _name(root, item)
    try:
        content = read.content(root, item.file, item.where)
    except UnreadableImage as error:
        raise UnreadableImage(name, error.reason) from error
    if item.sha256 and hashlib.sha256(content).hexdigest() != item.sha256:
        raise IntegrityError(
            f"{name}: the file changed after prepare read it; restore it or run `vse-pipe prepare` again"
        )
    return content, name


def _name(root: Path, item: Item) -> str:
    return f"{root / item.file} (image_id {item.image_id})"


def _box(root: Path, item: Item, address: str, box: Box) -> Image.Image:
    def make() -> Image.Image:
        return decode(*_content(root, item))

    # Without a digest nobody knows whether the file is still the same.
    picture = _wholes.get((str(root), address, item.sha256), make) if item.sha256 else make()
    return cropped(picture, box, _name(root, item))


def _decoded(image: Image.Image, name: str) -> tuple[Image.Image, int]:
    """The upright picture, and its ``orientation`` before."""
    try:
        image.load()
        turned = orientation(image)
        ImageOps.exif_transpose(image, in_place=True)
        return _rgb(image), turned
    except Exception as error:
        raise undecodable(name, error) from error


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode in _GRAY16 or image.mode == "I":
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
