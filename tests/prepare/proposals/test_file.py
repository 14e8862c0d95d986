"""Boxes in a file: every layout gives the same ones, and what is wrong ends in one line with the row."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.prepare.proposals._pictures import blocks, proposed, refused, seen
from vse_pipe.core import memory
from vse_pipe.prepare.regions import Picture

BOXES = np.array([[0, 0, 119, 79], [5, 6, 50, 60], [70.5, 30, 99, 69.25], [1, 2, 3, 4], [10, 10, 20, 20]])
IMAGE = ["12", "12", "12", "7", "12"]
SCORES = np.array([0.1, 0.9, 0.5, 1.0, 0.5])
BEST = [[5, 6, 50, 60], [70, 30, 99, 70], [10, 10, 20, 20], [0, 0, 119, 79]]


@pytest.fixture
def of(tmp_path: Path) -> Picture:
    return seen(tmp_path, "12.png", blocks(), image_id=7)


def write(path: Path, image=IMAGE, boxes=BOXES, scores=SCORES) -> Path:
    scored = {} if scores is None else {"scores": scores}
    np.savez(path, image=np.array(image), boxes=boxes, other=np.zeros(3), **scored)
    return path


def test_the_best_boxes_of_the_picture(tmp_path: Path, of: Picture):
    path = write(tmp_path / "edges.npz")
    boxes, scores = proposed("file", of, 100, path=str(path))
    assert boxes.tolist() == BEST
    assert scores.tolist() == [0.9, 0.5, 0.5, 0.1]
    assert proposed("file", of, 2, path=str(path))[0].tolist() == BEST[:2]
    folder = seen(tmp_path, "7.png", blocks())
    assert proposed("file", folder, 9, path=str(path))[0].tolist() == [[1, 2, 3, 4]]
    # Without scores the first are the best.
    write(path, scores=None)
    assert proposed("file", of, 2, path=str(path))[0].tolist() == [[0, 0, 119, 79], [5, 6, 50, 60]]


@pytest.mark.parametrize(("change", "message"), [
    ({"boxes": BOXES + np.array([0, 0, 1, 0])},
     "row 0: 0, 0, 120, 79 reaches outside 12.png of 120 x 80 pixels"),
    ({"boxes": BOXES - 1}, "row 0: -1, -1, 118, 78 reaches outside 12.png"),
    ({"boxes": BOXES[:, [2, 1, 0, 3]]}, "row 0: 119, 0, 0, 79 is a box without area"),
    ({"boxes": np.where(BOXES == 60, np.nan, BOXES)}, "row 1: 5, 6, 50, nan are boxes that are not all finite"),
    ({"scores": np.where(SCORES == 1, np.inf, SCORES)}, "row 3: inf are scores"),
    ({"image": ["1", "2", "3", "4", "5"]}, "no boxes for 12.png, looked for as '12'"),
])  # fmt: skip
def test_what_is_no_box_has_a_row(tmp_path: Path, of: Picture, change: dict, message: str):
    refused("file", of, message, path=str(write(tmp_path / "edges.npz", **change)))


def npz(image=IMAGE, **arrays) -> Callable[[Path], None]:
    return lambda path: np.savez(path, image=np.array(image) if isinstance(image, list) else image, **arrays)


DAMAGED = [
    (npz(np.array(IMAGE, object), boxes=BOXES), "o.npz: "),
    (npz(), "no .npz file with plain arrays image and boxes"),
    (npz(boxes=BOXES[:3]), "o.npz: image <U2 (5,), boxes float64 (3, 4); expected"),
    (npz(boxes=BOXES.astype(str)), "boxes <U32 (5, 4); expected"),
]


@pytest.mark.parametrize(("make", "message"), DAMAGED, ids=[case[1] for case in DAMAGED])
def test_what_is_no_file_of_boxes(tmp_path: Path, of: Picture, make: Callable, message: str):
    path = tmp_path / "o.npz"
    make(path)
    refused("file", of, message, path=str(path))


def test_a_small_file_that_unpacks_to_more_than_memory(tmp_path: Path, of: Picture):
    count = 40_000
    path = write(tmp_path / "e.npz", ["1"] * count, np.zeros((count, 4)), np.zeros(count))
    with memory.limit(1, "datasets.tiny.memory"):
        refused("file", of, "MiB of datasets.tiny.memory", path=str(path))
