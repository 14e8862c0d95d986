"""Thumbnails and uploads: small, bounded, refused before they are decoded."""

import io
import struct
import zlib

import pytest
from PIL import Image

from vse_pipe.core.errors import InputError
from vse_pipe.tools.serve.pictures import SIDE, Thumbnails, check_upload


def png(width: int, height: int) -> bytes:
    out = io.BytesIO()
    Image.effect_noise((width, height), 60).convert("RGB").save(out, "PNG")
    return out.getvalue()


def header(width: int, height: int) -> bytes:
    """A PNG that claims a size and has no pixels."""
    fields = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    checked = struct.pack(">I", 13) + fields + struct.pack(">I", zlib.crc32(fields))
    return b"\x89PNG\r\n\x1a\n" + checked + struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(4):
        (folder / f"{number}.png").write_bytes(png(600, 300))
    (folder / "7.png").write_bytes(b"no picture")
    return folder


def finder(folder, asked: list):
    def find(number: int):
        asked.append(number)
        return folder / f"{number}.png" if number < 9 else None

    return find


def test_a_thumbnail_is_a_small_webp_of_the_same_proportions(folder):
    made = Thumbnails(finder(folder, [])).get(0)
    with Image.open(io.BytesIO(made)) as opened:
        assert (opened.format, opened.size) == ("WEBP", (SIDE, SIDE // 2))


def test_what_is_no_picture_has_none(folder):
    thumbnails = Thumbnails(finder(folder, []))
    assert [thumbnails.get(number) for number in (7, 8, 9)] == [None] * 3  # unreadable, no file, no such image


def test_the_cache_answers_again_and_forgets_the_least_recently_used(folder):
    size = len(Thumbnails(finder(folder, [])).get(0))
    asked = []
    thumbnails = Thumbnails(finder(folder, asked), budget=int(size * 3.5))
    for number in (0, 1, 2, 0, 3):  # 3 pushes out 1, since 0 was asked for again
        thumbnails.get(number)
    assert asked == [0, 1, 2, 3]
    thumbnails.get(0)
    assert asked == [0, 1, 2, 3]
    thumbnails.get(1)
    assert asked == [0, 1, 2, 3, 1]


def test_a_picture_larger_than_the_cache_is_answered_and_not_kept(folder):
    asked = []
    thumbnails = Thumbnails(finder(folder, asked), budget=10)
    assert thumbnails.get(0) == thumbnails.get(0)
    assert asked == [0, 0]


def test_uploads_that_pass():
    check_upload(png(30, 20))
    check_upload(header(10_000, 5_000))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no picture that can be read"),
        (b"<html>not a picture</html>", "is no picture that can be read; known: JPEG, PNG, "),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is no picture that can be read"),
        (header(10_001, 5_000), "the picture has 50 megapixels; 50 are the most"),
        (header(12_000, 10_000), "the picture has 120 megapixels; 50 are the most"),
        (header(60_000, 60_000), "the picture is too large: 50 megapixels are the most"),
    ],
)
def test_uploads_that_do_not(content, message):
    with pytest.raises(InputError) as refused:
        check_upload(content)
    assert message in str(refused.value)


def test_a_picture_inside_a_shard_has_a_thumbnail(tmp_path):
    content = png(60, 30)
    (tmp_path / "t.tar").write_bytes(b"#" * 512 + content + b"#" * 99)
    address = tmp_path / f"t.tar::512:{len(content)}::a.png"
    with Image.open(io.BytesIO(Thumbnails(lambda number: address).get(1))) as opened:
        assert opened.size == (60, 30)


def test_a_picture_that_cannot_be_read_has_none(tmp_path):
    assert Thumbnails(lambda number: tmp_path).get(1) is None  # a folder
