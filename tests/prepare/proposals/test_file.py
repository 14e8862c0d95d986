"""Boxes in a file: every layout gives the same ones, and what is wrong ends in one line with the row."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.prepare.proposals._pictures import blocks, proposed, refused, seen
from vse_pipe.core import memory
from vse_pipe.core.errors import InputError
from vse_pipe.prepare.proposals.file import proposer
from vse_pipe.prepare.proposals.options import FileOptions as Params
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
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    boxes, scores = proposed("file", of, 100, path=str(path), sha256=digest)
    assert boxes.tolist() == BEST
    assert scores.tolist() == [0.9, 0.5, 0.5, 0.1]
    assert proposed("file", of, 2, path=str(path))[0].tolist() == BEST[:2]
    assert proposed("file", of, 9, path=str(path), by="image_id")[0].tolist() == [[1, 2, 3, 4]]
    # Without scores the first are the best.
    write(path, scores=None)
    assert proposed("file", of, 2, path=str(path))[0].tolist() == [[0, 0, 119, 79], [5, 6, 50, 60]]


def test_other_names_and_forms(tmp_path: Path, of: Picture):
    """Sizes counted from one, as EdgeBoxes has them."""
    path = write(tmp_path / "edges.npz", image=["12.png"] * 5)
    assert len(proposed("file", of, 9, path=str(path), by="file")[0]) == 5
    sizes = np.array([[1, 1, 120, 80], [6, 7, 46, 55]])
    path = write(tmp_path / "edges.npz", image=["12", "12"], boxes=sizes, scores=np.array([0.2, 0.3]))
    boxes, _ = proposed("file", of, 9, path=str(path), form="sizes", first_pixel=1)
    assert boxes.tolist() == [[5, 6, 50, 60], [0, 0, 119, 79]]


@pytest.mark.parametrize(("change", "message"), [
    ({"boxes": BOXES + np.array([0, 0, 1, 0])},
     "row 0: the box reaches outside 12.png of 120 x 80 pixels"),
    ({"boxes": BOXES - 1}, "row 0: the box reaches outside 12.png"),
    ({"boxes": BOXES[:, [2, 1, 0, 3]]}, "row 0: 119, 0, 0, 79 is a box without area, in the form corners"),
    ({"boxes": np.where(BOXES == 60, np.nan, BOXES)}, "row 1: 5, 6, 50, nan are boxes that are not all finite"),
    ({"scores": np.where(SCORES == 1, np.inf, SCORES)}, "row 3: inf are scores"),
    ({"image": ["1", "2", "3", "4", "5"]}, "no boxes for 12.png, looked for by stem as '12'"),
])  # fmt: skip
def test_what_is_no_box_has_a_row(tmp_path: Path, of: Picture, change: dict, message: str):
    refused("file", of, message, path=str(write(tmp_path / "edges.npz", **change)))


def test_a_stem_of_two_pictures(tmp_path: Path, of: Picture):
    (tmp_path / "sub").mkdir()
    other = seen(tmp_path, "sub/12.png", blocks())
    propose = proposer(Params(path=str(write(tmp_path / "e.npz"))), 9, 1)
    propose(of)
    propose(of)
    with pytest.raises(InputError, match=r"12\.png and sub/12\.png are both '12'; set by: file"):
        propose(other)


def npz(image=IMAGE, **arrays) -> Callable[[Path], None]:
    return lambda path: np.savez(path, image=np.array(image) if isinstance(image, list) else image, **arrays)


DAMAGED = [
    (npz(np.array(IMAGE, object), boxes=BOXES), "o.npz: "),
    (npz(), "no .npz file with plain arrays image and boxes"),
    (npz(boxes=BOXES[:3]), "shapes {'image': (5,), 'boxes': (3, 4)}, expected"),
    (npz(boxes=BOXES.astype(str)), "boxes holds <U32, expected numbers"),
    (npz(np.full(5, 1.5), boxes=BOXES), "o.npz: image holds float64, expected names or whole numbers"),
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
