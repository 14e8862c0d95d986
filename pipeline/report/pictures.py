"""Thumbnails: each picture goes into the page once, as a WebP data URI, however often it is shown."""

import base64
import io
import math
from collections.abc import Callable

from PIL import Image, ImageOps, UnidentifiedImageError

# Leaves room for the chart code (0.9 MB) and the tables below the page's limit of 10 MB.
BUDGET = 7_000_000
_QUALITY = 80
_SMALLEST = 32


def thumbnail(content: bytes, side: int) -> bytes | None:
    """WebP of at most ``side`` x ``side`` pixels, upright, its proportions kept; None when it is no readable picture."""
    try:
        with Image.open(io.BytesIO(content)) as opened:
            opened.draft("RGB", (side * 2, side * 2))
            small = ImageOps.exif_transpose(opened).convert("RGB")
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError, SyntaxError, ValueError):
        return None
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    small.save(out, "WEBP", quality=_QUALITY, method=4)
    return out.getvalue()


def data_uri(webp: bytes) -> str:
    return "data:image/webp;base64," + base64.b64encode(webp).decode("ascii")


def fit(
    make: Callable[[int], dict[str, bytes]], side: int, budget: int = BUDGET
) -> tuple[dict[str, bytes], int]:
    """The thumbnails of ``make(side)``, with the side reduced until all of them together stay below ``budget`` bytes.

    The budget counts base64, which takes 4 bytes for 3. Returns them with the side that was used.
    """
    while True:
        made = make(side)
        size = sum(math.ceil(len(one) / 3) * 4 for one in made.values())
        if size <= budget or side <= _SMALLEST:
            return made, side
        side = max(_SMALLEST, min(side - 8, int(side * math.sqrt(budget / size))))
