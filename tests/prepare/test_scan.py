"""Every image is opened and decoded; what cannot be used is counted and named."""

import hashlib
import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.prepare._data import picture, pictures
from vse_pipe.artifacts.images import UNREAD
from vse_pipe.core.errors import InputError
from vse_pipe.prepare import scan as scanning
from vse_pipe.prepare.scan import readings, scan


def _saved(image: Image.Image, kind: str, **options) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def _noise(shape: tuple[int, ...], dtype=np.uint8) -> np.ndarray:
    return np.random.default_rng(0).integers(0, np.iinfo(dtype).max, shape, dtype=dtype)


def _bomb(width: int, height: int) -> bytes:
    """A PNG whose header claims a size and whose data is a few bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


GOOD = [
    ("jpeg", _saved(Image.fromarray(_noise((31, 45, 3))), "JPEG")),
    ("progressive", _saved(Image.fromarray(_noise((31, 45, 3))), "JPEG", progressive=True)),
    ("cmyk", _saved(Image.fromarray(_noise((31, 45, 4)), "CMYK"), "JPEG")),
    ("grey", _saved(Image.fromarray(_noise((31, 45))), "JPEG")),
    ("palette", _saved(Image.fromarray(_noise((31, 45))).convert("P"), "PNG")),
    ("16 bit", _saved(Image.fromarray(_noise((31, 45), np.uint16)), "PNG")),
    ("alpha", _saved(Image.fromarray(_noise((31, 45, 4))), "PNG")),
    ("webp", _saved(Image.fromarray(_noise((31, 45, 3))), "WEBP")),
    ("bmp", _saved(Image.fromarray(_noise((31, 45, 3))), "BMP")),
    ("tiff", _saved(Image.fromarray(_noise((31, 45, 3))), "TIFF")),
    (
        "animated",
        _saved(
            Image.fromarray(_noise((31, 45))),
            "GIF",
            save_all=True,
            append_images=[Image.fromarray(_noise((31, 45)) // 2)],
        ),
    ),
]


@pytest.mark.parametrize("content", [case[1] for case in GOOD], ids=[case[0] for case in GOOD])
def test_sizes(tmp_path, content):
    (tmp_path / "image.jpg").write_bytes(content)
    scanned = scan(tmp_path, ["image.jpg"], str)
    assert (scanned.widths, scanned.heights) == ([45], [31])


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_sizes_are_those_of_the_upright_picture(tmp_path, kind):
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "a").write_bytes(_saved(Image.fromarray(_noise((31, 45, 3))), kind, exif=exif))
    scanned = scan(tmp_path, ["a"], str)
    assert (scanned.widths, scanned.heights, scanned.orientations) == ([31], [45], [6])


def test_order_is_that_of_the_files(tmp_path):
    sizes = [(3 + k, 5 + 2 * k) for k in range(40)]
    for number, size in enumerate(sizes):
        (tmp_path / f"{number}.png").write_bytes(picture(number, size))
    scanned = scan(tmp_path, [f"{number}.png" for number in range(40)], str)
    assert list(zip(scanned.widths, scanned.heights, strict=True)) == sizes
    assert len(set(scanned.digests)) == 40


PNG = picture(0, (40, 40))
NOISE = _saved(Image.fromarray(_noise((64, 64, 3))), "JPEG")
PROGRESSIVE = _saved(Image.fromarray(_noise((64, 64, 3))), "JPEG", progressive=True)
BAD = [
    ("zero bytes", b"", "is empty (0 bytes)"),
    ("web page", b"<!DOCTYPE html><html></html>",
     "is no image in a known format (28 bytes, the first are b'<!DOCTYPE ht')"),
    ("truncated jpeg", NOISE[: len(NOISE) // 2], "does not decode (OSError: image file is truncated"),
    ("jpeg without its last bytes", NOISE[:-40], "does not decode (OSError: image file is truncated"),
    ("truncated progressive jpeg", PROGRESSIVE[:-40], "does not decode (OSError: image file is truncated"),
    ("jpeg header only", NOISE[:300], "does not decode (OSError: Truncated File Read)"),
    ("truncated png", PNG[:-200], "does not decode ("),
    ("png without its data", PNG.replace(b"IDAT", b"IDAX"), "is no image in a known format"),
    ("damaged png", PNG[:2000] + b"vandal" + PNG[2006:], "does not decode ("),
    ("bomb, a warning in Pillow", _bomb(12_000, 12_000), "has too many pixels ("),
    ("bomb, an error in Pillow", _bomb(30_000, 30_000), "has too many pixels ("),
    ("postscript", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n",
     "is no image in a known format"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_unusable_image(tmp_path, content, message):
    pictures(tmp_path, ["good.png"])
    (tmp_path / "bad.jpg").write_bytes(content)
    scanned = scan(tmp_path, ["good.png", "bad.jpg"], lambda number: f"table row {number}")
    assert len(scanned.broken) == 1
    assert scanned.broken[0].startswith("table row 1: bad.jpg ")
    assert message in scanned.broken[0]
    assert "\n" not in scanned.broken[0]
    assert (scanned.widths, scanned.heights) == ([8, 0], [6, 0])
    assert scanned.digests[1] == hashlib.sha256(content).hexdigest()


def test_images_without_bytes_have_no_digest(tmp_path):
    (tmp_path / "folder.png").mkdir()
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "dangling.png").symlink_to(tmp_path / "nowhere.png")
    names = ["a.png", "folder.png", "pipe.png", "dangling.png", "x" * 300]
    scanned = scan(tmp_path, names, lambda number: f"row {number}")
    assert scanned.broken == [
        "row 0: a.png does not exist",
        "row 1: folder.png is a folder",
        "row 2: pipe.png is no regular file",
        "row 3: dangling.png does not exist",
        f"row 4: {'x' * 300} cannot be read (File name too long)",
    ]
    assert scanned.digests == [UNREAD] * 5


def test_a_loop_of_links_and_half_a_character_name_no_file(tmp_path):
    (tmp_path / "loop.png").symlink_to(tmp_path / "loop.png")
    for name in ("loop.png", "half\ud800.png"):
        with pytest.raises(InputError, match=r"^row 0: file .* names no file"):
            scan(tmp_path, [name], lambda number: f"row {number}")


def test_a_name_of_another_encoding_is_refused(tmp_path):
    (tmp_path / "caf\udce9.png").write_bytes(picture(0))
    with pytest.raises(InputError, match=r"^row 0: file 'caf\\udce9.png' is not UTF-8; rename it"):
        scan(tmp_path, ["caf\udce9.png"], lambda i: f"row {i}")


def test_names_that_leave_the_root_are_not_opened(tmp_path, monkeypatch):
    root = tmp_path / "images"
    pictures(root, ["good.png"])
    pictures(tmp_path, ["secret.png"])
    (root / "link.png").symlink_to(tmp_path / "secret.png")
    (root / "up").symlink_to(tmp_path)
    opened = []
    monkeypatch.setattr(Path, "read_bytes", lambda path: opened.append(path))
    for name in [
        "../secret.png",
        str(tmp_path / "secret.png"),
        "link.png",
        "up/secret.png",
        "x/../../secret.png",
        str(root / "good.png"),
    ]:
        with pytest.raises(InputError, match=r"^row 1: file .* (lies outside its root|is absolute)"):
            scan(root, ["good.png", name], lambda number: f"row {number}")
    assert opened == []


def test_links_that_stay_inside_are_fine(tmp_path):
    pictures(tmp_path / "real", ["a/b.png"])
    (tmp_path / "images").symlink_to(tmp_path / "real")
    (tmp_path / "real/c.png").symlink_to("a/b.png")
    assert len(set(scan(tmp_path / "images", ["a/b.png", "c.png"], str).digests)) == 1


def test_a_second_name_of_a_picture_is_refused(tmp_path):
    pictures(tmp_path, ["a/b.png", "c.png"])
    with pytest.raises(InputError, match=r"a name with '\.\.' can be a second name of a picture"):
        scan(tmp_path, ["c.png", "a/../c.png"], str)


def test_no_files_at_all(tmp_path):
    assert scan(tmp_path, [], str).digests == []


def test_files_are_given_to_the_threads_in_blocks(tmp_path, monkeypatch):
    names, places, opened = [f"{number}.png" for number in range(5)], list("abcde"), []
    pictures(tmp_path, names)
    whole = list(readings(tmp_path, zip(names, places, strict=True), len(names)))
    real = scanning._open
    monkeypatch.setattr(
        scanning, "_open", lambda root, file, where, *rest: opened.append(where) or real(root, file, where, *rest)
    )
    monkeypatch.setattr(scanning, "_BLOCK", 2)
    one_by_one = readings(tmp_path, zip(names, places, strict=True), len(names))
    first = next(one_by_one)
    assert set(opened) <= {"a", "b"}
    assert [first, *one_by_one] == whole
    assert sorted(opened) == places
