"""Odd images become upright RGB on white; unusable ones are refused by name."""

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.pictures.images import Item, decode, load


def saved(image: Image.Image, kind: str, **options) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def rgb(content: bytes) -> np.ndarray:
    image = decode(content, "test")
    assert image.mode == "RGB"
    return np.asarray(image)


def test_cmyk() -> None:
    found = rgb(saved(Image.new("CMYK", (8, 8), (255, 0, 0, 0)), "JPEG", quality=95))
    assert np.abs(found.astype(int) - (0, 255, 255)).max() <= 3


def test_palette() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putpixel((1, 0), 1)
    assert rgb(saved(image, "PNG")).tolist() == [[[10, 20, 30], [200, 100, 50]]]


def test_palette_with_a_transparent_colour_shows_white() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putpixel((1, 0), 1)
    assert rgb(saved(image, "PNG", transparency=0)).tolist() == [[[255, 255, 255], [200, 100, 50]]]


def test_a_transparent_colour_without_a_palette_shows_white() -> None:
    image = Image.new("RGB", (2, 1), (10, 20, 30))
    image.putpixel((1, 0), (200, 100, 50))
    assert rgb(saved(image, "PNG", transparency=(10, 20, 30))).tolist() == [[[255, 255, 255], [200, 100, 50]]]


def test_a_broken_exif_block_does_not_cost_the_image() -> None:
    assert rgb(saved(Image.new("RGB", (4, 2), "red"), "JPEG", exif=b"Exif\0\0garbage")).shape == (2, 4, 3)


@pytest.mark.parametrize(("mode", "pixel"), [("RGBA", (255, 0, 0, 128)), ("LA", (0, 128))])
def test_alpha_is_laid_on_white(mode: str, pixel: tuple) -> None:
    red_or_grey = rgb(saved(Image.new(mode, (1, 1), pixel), "PNG"))[0, 0].tolist()
    assert red_or_grey == ([255, 127, 127] if mode == "RGBA" else [127, 127, 127])


def test_sixteen_bits_keep_the_high_byte() -> None:
    values = np.array([[0, 255, 256, 32768, 65535]], dtype=np.uint16)
    found = rgb(saved(Image.fromarray(values), "PNG"))
    assert found[0, :, 0].tolist() == [0, 0, 1, 128, 255]
    assert (found[..., 0] == found[..., 2]).all()


def test_one_bit() -> None:
    assert rgb(saved(Image.new("1", (1, 1), 1), "PNG")).tolist() == [[[255, 255, 255]]]


def test_exif_orientation_turns_the_image_upright() -> None:
    image = Image.new("RGB", (4, 2), "black")
    image.putpixel((0, 0), (255, 255, 255))
    exif = Image.Exif()
    exif[0x0112] = 6  # turn clockwise to show
    found = rgb(saved(image, "PNG", exif=exif))
    assert found.shape == (4, 2, 3)
    assert found[0, 1].tolist() == [255, 255, 255]


def test_the_first_frame_of_an_animation() -> None:
    frames = [Image.new("RGB", (3, 3), colour) for colour in ("red", "lime")]
    found = rgb(saved(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    assert found[1, 1].tolist() == [255, 0, 0]


JPEG = saved(Image.effect_noise((64, 64), 50).convert("RGB"), "JPEG")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"is empty \(0 bytes\)"),
        (b"<html>404 not found</html>", "is no image in a known format"),
        (JPEG[: len(JPEG) // 2], "does not decode .*truncated"),
        (saved(Image.new("F", (2, 2)), "TIFF"), "has floating point numbers"),
        (saved(Image.fromarray(np.array([[70000, -1]], dtype=np.int32)), "TIFF"), "do not fit 16 bits"),
    ],
    ids=["empty", "html", "truncated", "float", "wide"],
)
def test_refuses(content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=f"cat.jpg .*{message}"):
        decode(content, "cat.jpg")


def test_refuses_a_decompression_bomb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(InputError, match="too many pixels"):
        decode(saved(Image.new("1", (64, 64)), "PNG"), "bomb.png")


def item(file: str, digest: str = "") -> Item:
    return Item(5, file, digest, "images.parquet row 2")


def test_load_compares_the_digest(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(JPEG)
    assert load(tmp_path, item("a.jpg", hashlib.sha256(JPEG).hexdigest())).size == (64, 64)
    with pytest.raises(IntegrityError, match=r"a.jpg \(image_id 5\): the file changed after prepare"):
        load(tmp_path, item("a.jpg", "0" * 64))


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("gone.jpg", r"gone.jpg \(image_id 5\) does not exist"),
        ("../outside.jpg", "row 2: file '../outside.jpg' lies outside its root"),
        ("/etc/passwd", "lies outside its root"),
        ("", "is a folder"),
    ],
)
def test_load_refuses(tmp_path: Path, file: str, message: str) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside.jpg").write_bytes(JPEG)
    with pytest.raises(InputError, match=message):
        load(tmp_path / "root", item(file))
