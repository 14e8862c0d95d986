"""Decoded pictures and boxes in them."""

import hashlib
import io
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.naive.extract import turned
from vse_pipe.core.errors import InputError, IntegrityError, UnreadableImage
from vse_pipe.pictures import images
from vse_pipe.pictures.address import Box
from vse_pipe.pictures.images import Item, Transform

OUTSIDE = "without area or outside the picture of 13 x 9"
DRAFT = Transform(8, 8, "exact", "bilinear", "center", (0.5,) * 3, (0.5,) * 3, draft=True)


def stored(width: int = 13, height: int = 9) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def saved(image: Image.Image | np.ndarray, kind: str = "PNG", orientation: int = 0, **options) -> bytes:
    file, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = orientation
    more = {"exif": exif, **options} if orientation else options
    (Image.fromarray(image) if isinstance(image, np.ndarray) else image).save(file, kind, **more)
    return file.getvalue()


def item(root: Path, file: str) -> Item:
    digest = hashlib.sha256((root / file.partition("#")[0]).read_bytes()).hexdigest()
    return Item(5, file, digest, "row 0")


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_box_is_of_the_picture_as_people_see_it(tmp_path: Path, orientation: int) -> None:
    (tmp_path / "a.png").write_bytes(saved(stored(), orientation=orientation))
    seen = turned(stored(), orientation)
    wanted = item(tmp_path, Box(2, 1, 5, 7).address("a.png"))
    assert np.array_equal(images.load(tmp_path, wanted), seen[1:8, 2:7])
    whole = item(tmp_path, "a.png")
    assert np.array_equal(images.load(tmp_path, whole), seen)
    assert images.load(tmp_path, whole).size == seen.shape[1::-1]


@pytest.mark.parametrize(
    ("box", "reason"),
    [
        ("0,0,14,1", f"names a box (14 x 1 at 0,0) {OUTSIDE}"),
        ("1,1,0,5", f"names a box (0 x 5 at 1,1) {OUTSIDE}"),
        ("999999999999999999,0,999999999999999999,1", OUTSIDE),
    ],
)
def test_what_is_no_box_of_the_picture_has_a_reason(tmp_path: Path, box: str, reason: str) -> None:
    (tmp_path / "a.png").write_bytes(saved(stored()))
    for read in (images.load, lambda *about: images.pixels(*about, DRAFT)):
        with pytest.raises(UnreadableImage) as caught:
            read(tmp_path, item(tmp_path, f"a.png#xywh={box}"))
        assert reason in caught.value.reason
        assert "(image_id 5)" in str(caught.value)
    assert images.page_bytes(tmp_path / f"a.png#xywh={box}") is None


@pytest.mark.parametrize("threads", [1, 7])
def test_a_picture_is_decoded_once_for_its_boxes_and_they_are_what_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """Draft or not: a box has the pixels of the picture at its full size."""
    decoded: list[str] = []
    really = images.decode

    def counted(content: bytes, name: str) -> Image.Image:
        decoded.append(name)
        time.sleep(0.01)
        return really(content, name)

    boxes = [Box(x, y, 10 + 40 * x, 30 + y) for x in range(6) for y in range(5)]
    for name in "ab":
        pixels = np.random.default_rng(ord(name)).integers(0, 256, (300, 400, 3), dtype=np.uint8)
        (tmp_path / f"{name}.jpg").write_bytes(saved(pixels, "JPEG", 6))
    items = [item(tmp_path, box.address(f"{name}.jpg")) for name in "ab" for box in boxes]
    wholes = {name: images.load(tmp_path, item(tmp_path, f"{name}.jpg")) for name in "ab"}
    monkeypatch.setattr(images, "decode", counted)
    images._cached_picture.cache_clear()
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(lambda one: images.pixels(tmp_path, one, DRAFT), items))
    assert len(decoded) == 2
    for one, name, box in zip(found, "a" * 30 + "b" * 30, boxes * 2, strict=True):
        cut = wholes[name].crop((box.left, box.top, box.left + box.width, box.top + box.height))
        assert np.array_equal(one, DRAFT.pixels(cut))


JPEG = saved(Image.effect_noise((64, 64), 50).convert("RGB"), "JPEG")


def test_load_compares_the_digest(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(JPEG)
    assert images.load(tmp_path, item(tmp_path, "a.jpg")).size == (64, 64)
    for file in ("a.jpg", Box(0, 0, 1, 1).address("a.jpg")):
        with pytest.raises(IntegrityError, match=r"a.jpg.*: the file changed after prepare"):
            images.load(tmp_path, Item(5, file, "0" * 64, ""))


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("gone.jpg", r"gone.jpg \(images.parquet row 2\) does not exist"),
        ("../outside.jpg", "row 2: file '../outside.jpg' lies outside its root"),
    ],
)
def test_load_refuses(tmp_path: Path, file: str, message: str) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside.jpg").write_bytes(JPEG)
    with pytest.raises(InputError, match=message):
        images.load(tmp_path / "root", Item(5, file, "", "images.parquet row 2"))
