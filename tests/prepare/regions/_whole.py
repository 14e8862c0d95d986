"""A small data set with whole pictures and phrases, and what ``format: regions`` makes of it; the working folder must be the
test's own.
"""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from tests.prepare._data import prepare
from vse_pipe.artifacts import captions, images, regions
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import sha256

SOURCE = Path("data/prepare/whole")
WIDTH, HEIGHT = 60, 40
ORIENTATION = 0x0112
WORDS = ["a man", "the dog", "a red ball", "grass"]
SPLITS = {3: "train", 9: "test", 4: "train", 7: "val", 1: "train"}


def write(rows: list[tuple], splits: dict[int, str], orientation: int = 1) -> None:
    """rows: image_id, text, box; one picture for each key of ``splits``."""
    (SOURCE / "images").mkdir(parents=True, exist_ok=True)
    pictured = []
    for number, split in splits.items():
        pixels = np.random.default_rng(number).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        path = SOURCE / "images" / f"p{number}.png"
        Image.fromarray(pixels).save(path, exif=exif)
        pictured.append((number, path.name, split, WIDTH, HEIGHT, sha256(path)))
    images.write(SOURCE, _table(images.SCHEMA, pictured), str(SOURCE / "images"))
    said = [(n, f"{text}.", splits.get(n, "test")) for n, text, _ in rows]
    captions.write(SOURCE, _table(captions.SCHEMA, [(900 + k, *row) for k, row in enumerate(said)]))
    spoken = [
        (500 + k, 900 + k, n, k, 0, text, "thing", *map(float, box), splits.get(n, "test"), None)
        for k, (n, text, box) in enumerate(rows)
    ]
    regions.write_phrases(SOURCE, _table(regions.PHRASES_SCHEMA, spoken))


def _table(schema: pa.Schema, rows: list[tuple]) -> pa.Table:
    return pa.table(list(map(list, zip(*rows, strict=True))), schema=schema)


def drawn(count: int, splits: dict[int, str]) -> list[tuple]:
    """Few boxes and few words, so that both come again."""
    rng = np.random.default_rng(3)
    boxes = [(0, 0, 9, 9), (5, 5, 30, 39), (2.5, 3.2, 20.1, 30), (40, 10, 59, 20)]
    picked = zip(rng.choice(list(splits), count), rng.integers(0, 4, count), rng.integers(0, 4, count), strict=True)
    return [(int(n), WORDS[word], boxes[box]) for n, word, box in picked]


def made(**options) -> tuple[list[dict], list[dict], list[dict], pa.Table]:
    out = prepare("regions", SOURCE, **options)
    table = regions.read(out)
    rows = [images.read(out), captions.read(out), regions.read_phrases(out)]
    return *(part.to_pylist() for part in rows), table


def refused(message: str, error: type[Exception] = InputError, **options) -> None:
    shutil.rmtree("data/prepare/tiny", ignore_errors=True)
    with pytest.raises(error) as caught:
        prepare("regions", SOURCE, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not Path("data/prepare/tiny").exists()
