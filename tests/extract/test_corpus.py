"""Images of every kind: decoded to their pixels, or refused with a reason."""

import io
import struct
import zlib
from dataclasses import dataclass

import numpy as np
import pytest
from PIL import Image, ImageFile

from tests.naive.extract import on_white, turned
from vse_pipe.core.errors import UnreadableImage
from vse_pipe.pictures.images import decode

WIDE, HIGH = 12, 9


@dataclass(frozen=True)
class Good:
    """expected: uint8 (height, width, 3); tolerance: of lossy formats, and of rounding where pixels are blended."""

    name: str
    content: bytes
    expected: np.ndarray
    tolerance: int = 0


@dataclass(frozen=True)
class Bad:
    """reason: part of what is said about it."""

    name: str
    content: bytes
    reason: str


def saved(image: Image.Image, kind: str, **options) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png(kind: int, depth: int, rows: bytes, size: tuple[int, int], *, broken: bytes = b"", extra: bytes = b"") -> bytes:
    """A PNG from scan lines without filters. kind: its colour type; broken: the chunk that gets a wrong CRC; extra: chunks
    before the data."""
    header = struct.pack(">IIBBBBB", *size, depth, kind, 0, 0, 0)
    length = len(rows) // size[1]
    lines = b"".join(b"\0" + rows[start : start + length] for start in range(0, len(rows), length))
    parts = [(b"IHDR", header), (b"tEXt", b"Title\0x"), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    chunks = [_chunk(name, data, wrong=name == broken) for name, data in parts]
    return b"\x89PNG\r\n\x1a\n" + chunks[0] + extra + b"".join(chunks[1:])


def _chunk(name: bytes, data: bytes, wrong: bool = False) -> bytes:
    crc = zlib.crc32(name + data) ^ wrong
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", crc)


def bomb(width: int, height: int) -> bytes:
    """A PNG whose header claims a size and whose data is a few bytes."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = [_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(bytes(100))), _chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


RNG = np.random.default_rng(7)
RGB = RNG.integers(0, 256, (HIGH, WIDE, 3), dtype=np.uint8)
OTHER = 255 - RGB
GREY = RGB[..., 0]
ALPHA = RNG.integers(0, 256, (HIGH, WIDE), dtype=np.uint8)
DEEP = RNG.integers(0, 65536, (HIGH, WIDE, 3), dtype=np.uint16)
# JPEG keeps slow changes; in noise it keeps little.
SMOOTH = np.stack(
    [np.add.outer(np.arange(48) * 2, np.arange(64)) + 20 * channel for channel in range(3)], axis=-1
).astype(np.uint8)
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
        Good("two in one.jpg", saved(smooth, "MPO", save_all=True, append_images=[smooth], quality=95), SMOOTH, 8),
        Good("plain.png", saved(rgb, "PNG"), RGB),
        Good("garbage behind.png", saved(rgb, "PNG") + b"garbage" * 99, RGB),
        Good("bmp by another name.jpg", saved(rgb, "BMP"), RGB),
        Good("tiff by another name.png", saved(rgb, "TIFF"), RGB),
        Good("lossless.webp", saved(rgb, "WEBP", lossless=True), RGB),
        Good("plain.ppm", saved(rgb, "PPM"), RGB),
        Good("lossless.jp2", saved(rgb, "JPEG2000"), RGB),
        Good("wrong sum of the data.png", png(2, 8, RGB.tobytes(), (WIDE, HIGH), broken=b"IDAT"), RGB),
        Good("thin.png", saved(Image.fromarray(np.full((1, 3000, 3), 77, np.uint8)), "PNG"), np.full((1, 3000, 3), 77)),
        Good("dot.gif", saved(Image.new("RGB", (1, 1), "red"), "GIF"), np.array([[[255, 0, 0]]])),
        Good("кошка 🐈.png", saved(rgb, "PNG"), RGB),
    ]


def _modes() -> list[Good]:
    palette, colours = _palette()
    rgba, la = np.dstack([RGB, ALPHA]), np.dstack([GREY, ALPHA])
    bits = GREY > 127
    clear = np.where((np.array(palette) == 3)[..., None], 255, colours)
    deep = DEEP.astype(">u2").tobytes()
    return [
        Good("palette.png", saved(palette, "PNG"), colours),
        Good("palette.gif", saved(palette, "GIF"), colours),
        Good("palette with a clear colour.png", saved(palette, "PNG", transparency=3), clear),
        Good(
            "palette with alphas.png",
            saved(palette, "PNG", transparency=bytes(range(0, 256, 16))),
            on_white(colours, np.array(palette) * 16),
            1,
        ),
        Good("alpha.png", saved(Image.fromarray(rgba), "PNG"), on_white(RGB, ALPHA), 1),
        Good("alpha.webp", saved(Image.fromarray(rgba), "WEBP", lossless=True, exact=True), on_white(RGB, ALPHA), 1),
        Good("grey and alpha.png", saved(Image.fromarray(la, "LA"), "PNG"), on_white(_grey(GREY), ALPHA), 1),
        Good("one bit.png", saved(Image.fromarray(bits), "PNG"), _grey(np.where(bits, 255, 0))),
        Good("one bit.tif", saved(Image.fromarray(bits), "TIFF"), _grey(np.where(bits, 255, 0))),
        Good("16 bit grey.png", saved(Image.fromarray(DEEP[..., 0]), "PNG"), _grey(DEEP[..., 0] >> 8)),
        Good("16 bit grey.tif", saved(Image.fromarray(DEEP[..., 0]), "TIFF"), _grey(DEEP[..., 0] >> 8)),
        Good("16 bit.png", png(2, 16, deep, (WIDE, HIGH)), DEEP >> 8),
        Good(
            "16 bit alpha.png",
            png(6, 16, np.dstack([DEEP, ALPHA.astype(np.uint16) * 257]).astype(">u2").tobytes(), (WIDE, HIGH)),
            on_white(DEEP >> 8, ALPHA),
            1,
        ),
        Good(
            "16 bit in 32.tif", saved(Image.fromarray(DEEP[..., 0].astype(np.int32)), "TIFF"), _grey(DEEP[..., 0] >> 8)
        ),
    ]


def _moving() -> list[Good]:
    frames = [Image.fromarray(RGB), Image.fromarray(OTHER)]
    more = {"save_all": True, "append_images": frames[1:]}
    palette, colours = _palette()
    return [
        Good("moving.png", saved(frames[0], "PNG", **more), RGB),
        Good("moving after a still.png", saved(frames[0], "PNG", default_image=True, **more), RGB),
        Good("moving.webp", saved(frames[0], "WEBP", lossless=True, **more), RGB),
        Good("moving.tif", saved(frames[0], "TIFF", **more), RGB),
        Good("moving.gif", saved(palette, "GIF", save_all=True, append_images=[palette.rotate(180)]), colours),
    ]


def _turned() -> list[Good]:
    image = Image.fromarray(RGB)
    return [
        Good(f"turned {one}.png", saved(image, "PNG", exif=_exif(one)), turned(RGB, one)) for one in range(1, 9)
    ] + [
        Good("turned.jpg", saved(Image.fromarray(SMOOTH), "JPEG", quality=95, exif=_exif(6)), turned(SMOOTH, 6), 8),
        Good("turned.webp", saved(image, "WEBP", lossless=True, exif=_exif(8)), turned(RGB, 8)),
        Good("turned.tif", saved(image, "TIFF", exif=_exif(5)), turned(RGB, 5)),
        Good("turned by nonsense.png", saved(image, "PNG", exif=_exif(99)), RGB),
    ]


def good() -> list[Good]:
    return [*_plain(), *_modes(), *_moving(), *_turned()]


def bad() -> list[Bad]:
    image = Image.fromarray(NOISE)
    jpeg, progressive = (saved(image, "JPEG", progressive=way) for way in (False, True))
    whole = {kind: saved(image, kind) for kind in ("PNG", "GIF", "WEBP", "BMP", "TIFF", "JPEG2000")}
    place = jpeg.index(b"\xff\xc0")  # the frame's header: length, depth, height, width
    giant = jpeg[: place + 5] + struct.pack(">HH", 65500, 65500) + jpeg[place + 9 :]
    float_tiff = saved(Image.new("F", (4, 4)), "TIFF")
    return [
        Bad("empty.jpg", b"", "is empty (0 bytes)"),
        Bad(
            "page.jpg",
            b"<!DOCTYPE html><html>404</html>",
            "is no image in a known format (31 bytes, the first are b'<!DOCTYPE ht')",
        ),
        Bad("text.png", "ceci n'est pas une pipe ☃".encode(), "is no image in a known format"),
        Bad("drawing.svg", b'<svg xmlns="http://www.w3.org/2000/svg"/>', "is no image in a known format"),
        Bad(
            "postscript.jpg",
            b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n",
            "is no image in a known format",
        ),
        Bad("zeros.jpg", bytes(4096), "is no image in a known format"),
        Bad("truncated.jpg", jpeg[: len(jpeg) // 2], "truncated"),
        Bad("truncated progressive.jpg", progressive[:-40], "truncated"),
        Bad("header.jpg", jpeg[:300], "does not decode ("),
        *(Bad(f"truncated.{kind.lower()}", content[: len(content) * 2 // 3], "") for kind, content in whole.items()),
        Bad("damaged.png", whole["PNG"][:2000] + b"vandal" + whole["PNG"][2006:], "does not decode ("),
        Bad(
            "wrong sum in the header.png",
            png(2, 8, RGB.tobytes(), (WIDE, HIGH), broken=b"IHDR"),
            "is no image in a known format",
        ),
        Bad("without data.png", whole["PNG"].replace(b"IDAT", b"IDAX"), "is no image in a known format"),
        Bad("bomb.png", bomb(30_000, 30_000), "has too many pixels ("),
        Bad("small bomb.png", bomb(12_000, 12_000), "has too many pixels ("),
        Bad("long bomb.png", bomb(2**31 - 1, 1), "has too many pixels ("),
        Bad("giant.jpg", giant, "has too many pixels ("),
        Bad(
            "giant.gif",
            whole["GIF"][:6] + struct.pack("<HH", 65535, 65535) + whole["GIF"][10:],
            "has too many pixels (",
        ),
        Bad("numbers.tif", float_tiff, "floating point numbers"),
    ]


GOOD, BAD = good(), bad()


@pytest.mark.parametrize("case", GOOD, ids=[case.name for case in GOOD])
def test_pixels(case: Good) -> None:
    image = decode(case.content, case.name)
    assert image.mode == "RGB"
    found = np.asarray(image).astype(int)
    assert found.shape == case.expected.shape
    assert np.abs(found - case.expected).max() <= case.tolerance


@pytest.mark.parametrize("case", BAD, ids=[case.name for case in BAD])
def test_reason(case: Bad) -> None:
    with pytest.raises(UnreadableImage) as caught:
        decode(case.content, case.name)
    assert case.reason in caught.value.reason
    assert str(caught.value) == f"{case.name} {caught.value.reason}"
    assert "\n" not in str(caught.value)


def test_a_bomb_is_refused_before_a_pixel_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []
    for kind in (Image.Image, ImageFile.ImageFile):
        monkeypatch.setattr(kind, "load", lambda image: loaded.append(image.size))
    bombs = [case for case in BAD if "pixels" in case.reason]
    for case in bombs:
        with pytest.raises(UnreadableImage):
            decode(case.content, case.name)
    assert len(bombs) == 5
    assert loaded == []


def test_damage_of_any_kind_is_an_image_or_a_reason() -> None:
    rng = np.random.default_rng(0)
    read = refused = 0
    for case in GOOD:
        for _ in range(12):
            content = bytearray(case.content)
            for place in rng.integers(0, len(content), 3):
                content[place] = rng.integers(256)
            try:
                read += decode(bytes(content[: rng.integers(1, len(content) + 1)]), "").mode == "RGB"
            except UnreadableImage:
                refused += 1
    assert read > 20
    assert refused > 200
