"""features.npy written from blocks, and the boxes and scores beside it."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from vse_pipe.artifacts import features
from vse_pipe.core.errors import InputError, IntegrityError

ROWS = np.arange(30, dtype=np.float32).reshape(5, 3, 2)
INDEX = pa.table({"image_id": list(range(5)), "row": list(range(5)), "status": ["ok"] * 5, "detail": [""] * 5})


@pytest.mark.parametrize("cuts", [[], [2], [1, 4], [0, 3, 3]])
def test_the_bytes_are_numpys(tmp_path: Path, cuts: list[int]) -> None:
    features.write(tmp_path, np.split(ROWS, cuts), [INDEX], {})
    np.save(tmp_path / "expected.npy", ROWS)
    assert (tmp_path / features.ARRAY).read_bytes() == (tmp_path / "expected.npy").read_bytes()
    assert features.read(tmp_path).meta["shape"] == [5, 3, 2]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        *[(features.ARRAY, torn, "not a whole .npy file") for torn in (b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00")],
        (features.META, b"{}", "content does not match the digest"),
    ],
)
def test_an_array_that_is_cut_short_or_none_or_has_no_digest(tmp_path: Path, name, content, message) -> None:
    features.write(tmp_path, ROWS, INDEX, {})
    (tmp_path / name).write_bytes(content)
    with pytest.raises(IntegrityError, match=message):
        features.read(tmp_path)


REGIONS = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
BOXES = np.arange(48, dtype=np.float32).reshape(4, 3, 4)
SCORES = np.linspace(1, 0, 12, dtype=np.float32).reshape(4, 3)


def index(**beside) -> pa.Table:
    columns = {"image_id": [3, 5, 7, 9], "row": [2, 0, 1, 3], "status": ["ok"] * 4, "detail": [""] * 4}
    return pa.table({**columns, **beside})


def test_they_lie_in_the_rows_of_the_array(tmp_path: Path) -> None:
    order = [2, 0, 1, 3]
    beside = {"boxes": features.lists(BOXES[order]), "scores": features.lists(SCORES[order])}
    features.write(tmp_path, REGIONS, index(**beside), {})
    found = features.read(tmp_path)
    assert found.boxes.dtype == np.float32
    assert np.array_equal(found.boxes, BOXES)
    assert np.array_equal(found.scores, SCORES)
    assert np.array_equal(found.boxes[found.rows_of(np.array([3]))], BOXES[[2]])


def test_images_without_boxes_among_others(tmp_path: Path) -> None:
    some = pa.array([BOXES[0].ravel().tolist(), None, None, BOXES[3].ravel().tolist()], pa.list_(pa.float32()))
    features.write(tmp_path, REGIONS, index(boxes=some), {})
    found = features.read(tmp_path).boxes
    assert np.array_equal(found[[2, 3]], BOXES[[0, 3]])
    assert np.isnan(found[[0, 1]]).all()


@pytest.mark.parametrize("second", [np.zeros((2, 4), np.float32), np.zeros((2, 3), np.float16)])
def test_rows_of_another_shape_or_type_are_refused(tmp_path, second):
    with (tmp_path / "features.npy").open("wb") as file, pytest.raises(InputError, match="all have to be alike"):
        features.append_rows(file, [np.zeros((2, 3), np.float32), second])
