"""Rows of .npy files pass through as they are."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.extract import project
from tests.naive import extract as naive
from vse_pipe.artifacts import features, images
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.extract import stage

OUT = project.OUT
ORDER = [3, 0, 4, 1]


def given(array: np.ndarray, files: list[str] | None = None, digests: list[str] | None = None) -> None:
    root = Path("raw")
    root.mkdir(exist_ok=True)
    np.save(root / "train_ims.npy", array)
    rows = [hashlib.sha256(np.ascontiguousarray(array[row])).hexdigest() for row in ORDER]
    project.prepared(root, files or [f"train_ims.npy#{row}" for row in ORDER], digests or rows)


def rows(shape: tuple[int, ...] = (5, 3), dtype: str = "float16") -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("shape", [(5, 3), (5, 4, 2)])
def test_bytes_and_order(folder: Path, shape: tuple[int, ...], dtype: str) -> None:
    array = rows(shape, dtype)
    given(array)
    stage.extract(project.params("precomp", batch_size=3), "small", "cpu")
    found = features.read(OUT)
    assert found.array.dtype == array.dtype
    assert np.array_equal(found.array, array[ORDER])
    assert json.loads((OUT / "meta.json").read_text())["network"] == "precomputed"


def test_bottom_up_arrays_pass_through(folder: Path) -> None:
    """(n, 36, 2048), as SCAN and its descendants publish them; there are no boxes beside them."""
    given(rows((5, 36, 2048), "float32"))
    stage.extract(project.params("precomp", store="float16"), "small", "cpu")
    found = features.read(OUT)
    assert np.array_equal(found.array, rows((5, 36, 2048), "float32")[ORDER].astype(np.float16))
    assert found.boxes is None
    assert found.scores is None


def test_doubles_become_singles(folder: Path) -> None:
    given(rows(dtype="float64"))
    stage.extract(project.params("precomp"), "small", "cpu")
    assert np.array_equal(features.read(OUT).array, rows(dtype="float64")[ORDER].astype(np.float32))


def test_columns_first_on_disk(folder: Path) -> None:
    given(np.asfortranarray(rows()))
    stage.extract(project.params("precomp"), "small", "cpu")
    assert np.array_equal(features.read(OUT).array, rows()[ORDER])


def test_normalised_when_asked_for(folder: Path) -> None:
    given(rows(dtype="float32"))
    stage.extract(project.params("precomp", normalise=True), "small", "cpu")
    expected = [naive.unit(row.tolist()) for row in rows(dtype="float32")[ORDER]]
    assert features.read(OUT).array == pytest.approx(np.array(expected), abs=1e-6)


def with_nan() -> np.ndarray:
    array = rows()
    array[4, 1] = np.nan
    return array


GOOD = [f"train_ims.npy#{row}" for row in ORDER]


@pytest.mark.parametrize(("array", "files", "message"), [
    (with_nan(), GOOD,
     r"train_ims.npy#4 \(image_id 10\) holds NaN or infinite values; to leave such images out, set on_error"),
    (rows(), [*GOOD[:3], "train_ims.npy#5"], "row 3: train_ims.npy#5 does not exist, the file has 5 rows"),
    (rows(), ["cat.jpg", *GOOD[1:]], "row 0: file 'cat.jpg' names no row of features, expected <name>.npy#<row>"),
    (rows(), ["../train_ims.npy#0", *GOOD[1:]], "row 0: file '../train_ims.npy' lies outside its root"),
    (rows(), ["dev_ims.npy#0", *GOOD[1:]], "dev_ims.npy: no such file"),
    (rows(dtype="int64"), GOOD, r"train_ims.npy: int64 \(5, 3\), expected \(rows, D\) or \(rows, R, D\)"),
    (rows((5,)), GOOD, r"train_ims.npy: float16 \(5,\), expected"),
    (np.array([{"a": 1}] * 5, dtype=object), GOOD, "train_ims.npy: holds pickled Python objects"),
], ids=["nan", "row", "image", "outside", "missing", "integers", "shape", "pickle"])  # fmt: skip
def test_refuses(folder: Path, array: np.ndarray, files: list[str], message: str) -> None:
    Path("raw").mkdir()
    np.save("raw/train_ims.npy", array)
    project.prepared(Path("raw"), files, [""] * 4)
    with pytest.raises(InputError, match=message):
        stage.extract(project.params("precomp"), "small", "cpu")
    assert not (OUT / "features.npy").exists()


def test_a_truncated_file(folder: Path) -> None:
    given(rows())
    Path("raw/train_ims.npy").write_bytes(Path("raw/train_ims.npy").read_bytes()[:-3])
    with pytest.raises(InputError, match=r"train_ims.npy: not a whole .npy file"):
        stage.extract(project.params("precomp"), "small", "cpu")


def test_a_changed_row(folder: Path) -> None:
    given(rows(), digests=["0" * 64] * 4)
    with pytest.raises(IntegrityError, match=r"row 0: train_ims.npy#3 changed after prepare read it"):
        stage.extract(project.params("precomp"), "small", "cpu")


def test_rows_that_are_not_finite_can_be_left_out(folder: Path) -> None:
    given(with_nan(), digests=[""] * 4)
    whole = project.params("precomp")
    skipping = replace(whole.features["small"], on_error="skip", max_errors=1)
    stage.extract(replace(whole, features={"small": skipping}), "small", "cpu")
    assert images.read_unreadable(OUT)["reason"].to_pylist() == ["holds NaN or infinite values"]
    assert np.array_equal(features.read(OUT).array, rows()[[3, 0, 1]])
