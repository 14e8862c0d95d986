"""Images of every kind, good and bad."""

import io
import struct
import zlib
from typing import NamedTuple

import numpy as np
from PIL import Image

from tests.naive.extract import on_white, turned

WIDE, HIGH = 12, 9


class Good(NamedTuple):
    """expected: uint8 (height, width, 3); tolerance: of lossy formats, and of rounding where pixels are blended."""

    name: str
    content: bytes
    expected: np.ndarray
    tolerance: int = 0


class Bad(NamedTuple):
    """reason: part of what is said about it."""

    name: str
    content: bytes
    reason: str


def saved(image: Image.Image, kind: str, **options) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png(kind: int, depth: int, rows: bytes, broken: bytes = b"") -> bytes:
    """A PNG from scan lines without filters. kind: its colour type; broken: the chunk that gets a wrong CRC."""
    header = struct.pack(">IIBBBBB", WIDE, HIGH, depth, kind, 0, 0, 0)
    length = len(rows) // HIGH
    lines = b"".join(b"\0" + rows[start : start + length] for start in range(0, len(rows), length))
    parts = [(b"IHDR", header), (b"tEXt", b"Title\0x"), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    chunks = [_chunk(name, data, wrong=name == broken) for name, data in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(name: bytes, data: bytes, wrong: bool = False) -> bytes:
    crc = zlib.crc32(name + data) ^ wrong
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", crc)


def bomb(width: int, height: int) -> bytes:
    """A PNG whose header claims a size and whose data is a few bytes."""
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(bytes(100)))]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in [*parts, (b"IEND", b"")])


RNG = np.random.default_rng(7)
RGB = RNG.integers(0, 256, (HIGH, WIDE, 3), dtype=np.uint8)
OTHER = 255 - RGB
GREY = RGB[..., 0]
ALPHA = RNG.integers(0, 256, (HIGH, WIDE), dtype=np.uint8)
DEEP = RNG.integers(0, 65536, (HIGH, WIDE, 3), dtype=np.uint16)
# JPEG keeps slow changes; in noise it keeps little.
_SLOPE = np.add.outer(np.arange(48) * 2, np.arange(64))
SMOOTH = np.stack([_SLOPE + 20 * channel for channel in range(3)], axis=-1).astype(np.uint8)
NOISE = RNG.integers(0, 256, (64, 64, 3), dtype=np.uint8)


def _grey(values: np.ndarray) -> np.ndarray:
    return np.repeat(values[..., None], 3, axis=-1)


def _exif(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def _palette() -> tuple[Image.Image, np.ndarray]:
    """An image of mode P and its colours."""
    colours = RNG.integers(0, 256, (16, 3), dtype=np.uint8)
    places = RNG.integers(0, 16, (HIGH, WIDE), dtype=np.uint8)
    image = Image.new("P", (WIDE, HIGH))
    image.putdata(places.ravel().tolist())
    image.putpalette(colours.ravel().tolist())
    return image, colours[places]


def _plain() -> list[Good]:
    rgb, smooth = Image.fromarray(RGB), Image.fromarray(SMOOTH)
    jpeg = saved(smooth, "JPEG", quality=95)
    cmyk = np.concatenate([255 - SMOOTH, np.zeros_like(SMOOTH[..., :1])], axis=-1)
    return [
        Good("photo.jpg", jpeg, SMOOTH, 8),
        Good("progressive.jpg", saved(smooth, "JPEG", quality=95, progressive=True), SMOOTH, 8),
        Good("grey.jpg", saved(Image.fromarray(SMOOTH[..., 0]), "JPEG", quality=95), _grey(SMOOTH[..., 0]), 8),
        Good("cmyk.jpg", saved(Image.fromarray(cmyk, "CMYK"), "JPEG", quality=95), SMOOTH, 8),
        Good("cmyk.tif", saved(Image.fromarray(cmyk, "CMYK"), "TIFF"), SMOOTH),
        Good("garbage behind.jpg", jpeg + b"garbage" * 99, SMOOTH, 8),
        Good("plain.png", saved(rgb, "PNG"), RGB),
        Good("tiff by another name.png", saved(rgb, "TIFF"), RGB),
        Good("lossless.webp", saved(rgb, "WEBP", lossless=True), RGB),
        Good("plain.ppm", saved(rgb, "PPM"), RGB),
        Good("lossless.jp2", saved(rgb, "JPEG2000"), RGB),
        Good("wrong sum of the data.png", png(2, 8, RGB.tobytes(), broken=b"IDAT"), RGB),
        Good("thin.png", saved(Image.fromarray(np.full((1, 3000, 3), 77, np.uint8)), "PNG"), np.full((1, 3000, 3), 77)),
        Good("кошка 🐈.png", saved(rgb, "PNG"), RGB),
    ]


def _modes() -> list[Good]:
    palette, colours = _palette()
    rgba, la = np.dstack([RGB, ALPHA]), np.dstack([GREY, ALPHA])
    bits = GREY > 127
    clear = np.where((np.array(palette) == 3)[..., None], 255, colours)
    deep = DEEP.astype(">u2").tobytes()
    deep_grey, deep_alpha = Image.fromarray(DEEP[..., 0]), np.dstack([DEEP, ALPHA.astype(np.uint16) * 257])
    alphas = on_white(colours, np.array(palette) * 16)
    return [
        Good("palette.png", saved(palette, "PNG"), colours),
        Good("palette with a clear colour.png", saved(palette, "PNG", transparency=3), clear),
        Good("palette with alphas.png", saved(palette, "PNG", transparency=bytes(range(0, 256, 16))), alphas, 1),
        Good("alpha.png", saved(Image.fromarray(rgba), "PNG"), on_white(RGB, ALPHA), 1),
        Good("alpha.webp", saved(Image.fromarray(rgba), "WEBP", lossless=True, exact=True), on_white(RGB, ALPHA), 1),
        Good("grey and alpha.png", saved(Image.fromarray(la, "LA"), "PNG"), on_white(_grey(GREY), ALPHA), 1),
        Good("one bit.png", saved(Image.fromarray(bits), "PNG"), _grey(np.where(bits, 255, 0))),
        Good("16 bit grey.png", saved(deep_grey, "PNG"), _grey(DEEP[..., 0] >> 8)),
        Good("16 bit in 32.tif", saved(deep_grey.convert("I"), "TIFF"), _grey(DEEP[..., 0] >> 8)),
        Good("16 bit.png", png(2, 16, deep), DEEP >> 8),
        Good("16 bit alpha.png", png(6, 16, deep_alpha.astype(">u2").tobytes()), on_white(DEEP >> 8, ALPHA), 1),
    ]


def _moving() -> list[Good]:
    frames = [Image.fromarray(RGB), Image.fromarray(OTHER)]
    more = {"save_all": True, "append_images": frames[1:]}
    palette, colours = _palette()
    return [
        Good("moving.png", saved(frames[0], "PNG", **more), RGB),
        Good("moving.webp", saved(frames[0], "WEBP", lossless=True, **more), RGB),
        Good("moving.tif", saved(frames[0], "TIFF", **more), RGB),
        Good("moving.gif", saved(palette, "GIF", save_all=True, append_images=[palette.rotate(180)]), colours),
    ]


def _turned() -> list[Good]:
    image = Image.fromarray(RGB)
    every = [Good(f"turned {one}.png", saved(image, "PNG", exif=_exif(one)), turned(RGB, one)) for one in range(1, 9)]
    return [
        *every,
        Good("turned.jpg", saved(Image.fromarray(SMOOTH), "JPEG", quality=95, exif=_exif(6)), turned(SMOOTH, 6), 8),
        Good("turned.tif", saved(image, "TIFF", exif=_exif(5)), turned(RGB, 5)),
    ]


def good() -> list[Good]:
    return [*_plain(), *_modes(), *_moving(), *_turned()]


def bad() -> list[Bad]:
    image = Image.fromarray(NOISE)
    jpeg, progressive = (saved(image, "JPEG", progressive=way) for way in (False, True))
    whole = {kind: saved(image, kind) for kind in ("PNG", "GIF", "WEBP", "BMP", "TIFF", "JPEG2000")}
    place = jpeg.index(b"\xff\xc0")  # the frame's header: length, depth, height, width
    giant = jpeg[: place + 5] + struct.pack(">HH", 65500, 65500) + jpeg[place + 9 :]
    giant_gif = whole["GIF"][:6] + struct.pack("<HH", 65535, 65535) + whole["GIF"][10:]
    float_tiff = saved(Image.new("F", (4, 4)), "TIFF")
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n"
    page = b"<!DOCTYPE html><html>404</html>"
    unknown, many = "is no image in a known format", "has too many pixels ("
    return [
        Bad("empty.jpg", b"", "is empty (0 bytes)"),
        Bad("page.jpg", page, f"{unknown} (31 bytes, the first are b'<!DOCTYPE ht')"),
        Bad("postscript.jpg", postscript, unknown),
        Bad("truncated.jpg", jpeg[: len(jpeg) // 2], "truncated"),
        Bad("truncated progressive.jpg", progressive[:-40], "truncated"),
        Bad("header.jpg", jpeg[:300], "does not decode ("),
        *(Bad(f"truncated.{kind.lower()}", content[: len(content) * 2 // 3], "") for kind, content in whole.items()),
        Bad("damaged.png", whole["PNG"][:2000] + b"vandal" + whole["PNG"][2006:], "does not decode ("),
        Bad("wrong sum in the header.png", png(2, 8, RGB.tobytes(), broken=b"IHDR"), unknown),
        Bad("without data.png", whole["PNG"].replace(b"IDAT", b"IDAX"), unknown),
        Bad("bomb.png", bomb(30_000, 30_000), many),
        Bad("long bomb.png", bomb(2**31 - 1, 1), many),
        Bad("giant.jpg", giant, many),
        Bad("giant.gif", giant_gif, many),
        Bad("numbers.tif", float_tiff, "floating point numbers"),
        Bad("32 bits.tif", saved(Image.fromarray(np.full((2, 2), 70000, np.int32)), "TIFF"), "do not fit 16 bits"),
    ]


GOOD, BAD = good(), bad()
