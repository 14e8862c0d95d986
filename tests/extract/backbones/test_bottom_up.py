"""Bottom-up TSV files: rows found by the image's number, passed through, and refused where they are not what they say."""

import base64
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.extract import project
from vse_pipe.artifacts import features
from vse_pipe.core.errors import InputError
from vse_pipe.extract.backbones import bottom_up
from vse_pipe.extract.backbones.bottom_up import build
from vse_pipe.extract.backbones.options import BottomUpOptions as Params

RANDOM = np.random.default_rng(0)
VALUES = RANDOM.standard_normal((4, 3, 5)).astype(np.float32)
BOXES = RANDOM.uniform(0, 40, (4, 3, 4)).astype(np.float32)
NUMBERS = [391895, 9, 70, 12345678901]
FILES = ["COCO_val2014_000000391895.jpg", "9.jpg", "some_name_70.png", "12345678901.jpg"]
SMALL = {"regions": 3, "dimensions": 5}


def coded(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()


def row(place: int, **changed) -> str:
    size = {"image_w": 40, "image_h": 36, "num_boxes": 3}
    coded_ = {"boxes": coded(BOXES[place]), "features": coded(VALUES[place])}
    return "\t".join(map(str, {"image_id": NUMBERS[place], **size, **coded_, **changed}.values()))


def written(*rows: str, name: str = "a.tsv", end: str = "\n") -> str:
    Path("tsv").mkdir(exist_ok=True)
    Path("tsv", name).write_bytes("".join(line + end for line in rows).encode())
    return f"tsv/{name}"


def prepared() -> None:
    """Pictures of 40 x 36."""
    Path("raw").mkdir(exist_ok=True)
    for file in FILES:
        Image.new("RGB", (40, 36)).save(Path("raw", file))
    project.prepared(Path("raw"), FILES, None)


def extracted(**options) -> features.Features:
    project.extract("bottom_up", **{"tsv": ["tsv"], **SMALL, **options})
    return features.read(project.OUT)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_values_and_boxes_of_the_files_in_the_order_of_the_images(folder: Path, end: str) -> None:
    prepared()
    written(row(3), row(1), name="x.tsv.0", end=end)
    written(row(2), row(0), name="x.tsv.1", end=end)
    Path("tsv/README.txt").write_text("not one of them")
    found = extracted(batch_size=3)
    assert np.array_equal(found.array, VALUES)
    assert found.array.dtype == np.float32
    assert np.array_equal(found.boxes, BOXES)
    assert found.scores is None
    about = json.loads((project.OUT / "meta.json").read_text())
    assert [(file["file"], file["rows"]) for file in about["files"]] == [("x.tsv.0", 2), ("x.tsv.1", 2)]


def test_boxes_of_a_copy_of_another_size_are_scaled(folder: Path) -> None:
    prepared()
    written(row(0, image_w=80, image_h=72), row(1, image_w=27, image_h=24), row(2), row(3))
    boxes = extracted().boxes
    assert np.allclose(boxes[0], BOXES[0] / 2)
    assert np.allclose(boxes[1], BOXES[1] * ([40 / 27, 36 / 24] * 2))
    assert np.array_equal(boxes[2:], BOXES[2:])


@pytest.mark.parametrize(("changed", "message"), [
    ({"image_w": 36, "image_h": 40}, "has 40 x 36 pixels upright, .* was made from 36 x 40"),
    ({"image_w": "wide"}, "image_w 'wide' is not a whole number"),
])  # fmt: skip
def test_a_row_of_another_picture_is_refused(folder: Path, changed: dict, message: str) -> None:
    prepared()
    written(row(0, **changed), *map(row, range(1, 4)))
    with pytest.raises(InputError, match=message):
        extracted()
    assert not (project.OUT / "features.npy").exists()


@pytest.mark.parametrize(("bad", "message"), [
    (row(1, num_boxes=10), r"a.tsv row 2: image_id 9 has 10 boxes .* expected 3"),
    (row(1, features="%" + coded(VALUES[1])[1:]), r"a.tsv row 2: features are no 3 x 5 float32 in base64"),
    (row(1, boxes=coded(BOXES[1, :2])), r"a.tsv row 2: boxes are no 3 x 4 float32"),
    (row(1, features=coded(np.where(VALUES[1, 2, 3] == VALUES, np.nan, VALUES)[1])), "features hold NaN or infinite"),
    (row(1, image_id=NUMBERS[0]), r"a.tsv row 2: image_id 391895 is in tsv/a.tsv row 1 already"),
    (row(1, image_id="9" * 5000), r"a.tsv row 2: image_id '9+' is not a whole number"),
    ("9\t40\t36", r"a.tsv row 2: 3 columns, expected 6: image_id, image_w"),
    (row(1, image_id=8), r"images.parquet row 1: no row has the number at the end of the name 9.jpg"),
], ids=str)  # fmt: skip
def test_refuses(folder: Path, bad: str, message: str) -> None:
    prepared()
    written(row(0), bad, row(2), row(3))
    with pytest.raises(InputError, match=message):
        extracted()
    assert not (project.OUT / "features.npy").exists()


def test_lines_without_end_do_not_fill_the_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bottom_up, "_LONGEST", 1000)
    written(row(0), "A" * 5000)
    with pytest.raises(InputError, match=r"a.tsv row 2: 1 columns, expected 6"):
        build(Params(tsv=["tsv/a.tsv"]), seed=1)
