"""Thumbnails: each picture goes into the page once, as a WebP data URI, however often it is shown."""

import base64
import io
import math
from collections.abc import Callable
from typing import TypeVar

from PIL import Image, ImageOps

from vse_pipe.core.errors import UnreadableImage
from vse_pipe.pictures.read import open_picture, undecodable

Key = TypeVar("Key")

_QUALITY = 80
_SMALLEST = 64


def thumbnail(content: bytes, side: int) -> bytes | None:
    """WebP of at most ``side`` x ``side`` pixels, upright, its proportions kept; None when it is no readable picture.

    What counts as one is what ``prepare`` takes: no other format is tried, EPS least of all.
    """
    try:
        with open_picture(content, "") as image:
            small = _upright(image, side)
    except UnreadableImage:
        return None
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    small.save(out, "WEBP", quality=_QUALITY, method=4)
    return out.getvalue()


def _upright(image: Image.Image, side: int) -> Image.Image:
    try:
        image.draft("RGB", (side * 2, side * 2))
        return ImageOps.exif_transpose(image).convert("RGB")
    except Exception as error:
        raise undecodable("", error) from error


def data_uri(webp: bytes) -> str:
    return "data:image/webp;base64," + base64.b64encode(webp).decode("ascii")


def embedded_size(webp: bytes) -> int:
    """Bytes in the page: base64 takes 4 for 3."""
    return math.ceil(len(webp) / 3) * 4


def fit(make: Callable[[int], dict[Key, bytes]], side: int, budget: int) -> tuple[dict[Key, bytes], int]:
    """The thumbnails of ``make(side)``, with the side reduced until all of them together stay below ``budget`` bytes of
    base64. Smaller than 64 px nothing can be made out: from there on the last ones are left out instead. Returns them with
    the side that was used.
    """
    while True:
        made = make(side)
        size = sum(map(embedded_size, made.values()))
        if size <= budget:
            return made, side
        if side <= _SMALLEST:
            return _first(made, budget), side
        side = max(_SMALLEST, min(side - 8, int(side * math.sqrt(budget / size))))


def _first(made: dict[Key, bytes], budget: int) -> dict[Key, bytes]:
    """As many from the beginning as fit."""
    kept = {}
    for symbol, webp in made.items():
        budget -= embedded_size(webp)
        if budget < 0:
            break
        kept[symbol] = webp
    return kept
