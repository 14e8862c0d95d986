"""Thumbnails of the data set's pictures, made when they are first asked for, and the first look at an upload."""

import io
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from vse_pipe.core.errors import InputError
from vse_pipe.pictures.images import shown
from vse_pipe.report.engine.pictures import thumbnail

# Twice the width of a tile, for screens with two pixels to a point.
SIDE = 400
# About 3,000 thumbnails.
CACHE_BYTES = 32 * 2**20
# Formats that Pillow decodes by itself; EPS, for one, would start another program.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
MAX_PIXELS = 50_000_000


class Thumbnails:
    """WebP by image_id; beyond ``budget`` bytes the least recently used are forgotten. For several threads at once."""

    def __init__(self, find: Callable[[int | str], Path | None], budget: int = CACHE_BYTES) -> None:
        """find: where the image of an image_id lies, as ``sources.read.at`` takes it; None where there is none."""
        self._find = find
        self._budget = budget
        self._kept: OrderedDict[int | str, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, image_id: int | str) -> bytes | None:
        """None when the data set has no such image, or no readable picture of it."""
        with self._lock:
            if image_id in self._kept:
                self._kept.move_to_end(image_id)
                return self._kept[image_id]
        path = self._find(image_id)
        content = shown(path) if path is not None else None
        made = thumbnail(content, SIDE) if content is not None else None
        if made is not None:
            self._keep(image_id, made)
        return made

    def _keep(self, image_id: int | str, made: bytes) -> None:
        with self._lock:
            if image_id not in self._kept:
                self._kept[image_id] = made
                self._bytes += len(made)
            while self._bytes > self._budget:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= len(oldest)


def check_upload(content: bytes) -> None:
    """Raises InputError unless ``content`` starts as a picture of a usual format and a bearable size does.

    Only the header is read: a file of 50 kB may claim 400 megapixels, and must be refused before it is decoded.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=FORMATS) as opened:
                pixels = opened.width * opened.height
    except Image.DecompressionBombError as error:
        raise InputError(f"the picture is too large: {MAX_PIXELS // 10**6} megapixels are the most") from error
    except (OSError, UnidentifiedImageError, SyntaxError, ValueError) as error:
        raise InputError(f"the file is no picture that can be read; known: {', '.join(FORMATS)}") from error
    if pixels > MAX_PIXELS:
        raise InputError(f"the picture has {pixels / 1e6:,.0f} megapixels; {MAX_PIXELS // 10**6} are the most")
