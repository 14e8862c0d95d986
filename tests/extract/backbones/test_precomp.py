"""Rows of .npy files pass through as they are."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from tests.extract import project
from tests.extract.project import OUT
from vse_pipe.artifacts import features
from vse_pipe.core.errors import InputError, IntegrityError

ORDER = [3, 0, 4, 1]


GOOD = [f"train_ims.npy#{row}" for row in ORDER]


def extracted(
    array: np.ndarray, files: list[str] = GOOD, digests: list[str] | None = None, **options
) -> features.Features:
    root = Path("raw")
    root.mkdir(exist_ok=True)
    np.save(root / "train_ims.npy", array)
    project.prepared(root, files, digests or [""] * 4)
    project.extract("precomp", **options)
    return features.read(OUT)


def digests(array: np.ndarray) -> list[str]:
    return [hashlib.sha256(np.ascontiguousarray(array[row])).hexdigest() for row in ORDER]


def rows(shape: tuple[int, ...] = (5, 3), dtype: str = "float16") -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("shape", [(5, 3), (5, 4, 2)])
def test_bytes_and_order(folder: Path, shape: tuple[int, ...], dtype: str) -> None:
    array = rows(shape, dtype)
    found = extracted(array, digests=digests(array), batch_size=3)
    assert found.array.dtype == array.dtype
    assert np.array_equal(found.array, array[ORDER])
    assert found.meta["network"] == "precomputed"


@pytest.mark.parametrize(("array", "options", "dtype"), [
    (rows((5, 36, 2048), "float32"), {"store": "float16"}, "float16"),  # as SCAN and its descendants publish them
    (rows(dtype="float64"), {}, "float32"),
    (np.asfortranarray(rows()), {}, "float16"),
], ids=["bottom-up", "doubles", "columns first"])  # fmt: skip
def test_other_arrays(folder: Path, array: np.ndarray, options: dict, dtype: str) -> None:
    found = extracted(array, digests=digests(array), **options)
    assert np.array_equal(found.array, array[ORDER].astype(dtype))
    assert (found.array.dtype, found.boxes, found.scores) == (np.dtype(dtype), None, None)


def with_nan() -> np.ndarray:
    array = rows()
    array[4, 1] = np.nan
    return array


@pytest.mark.parametrize(("array", "files", "message"), [
    (with_nan(), GOOD,
     r"train_ims.npy#4 \(image_id 10\) holds NaN or infinite values; to leave such images out, set on_error"),
    (rows(), [*GOOD[:3], "train_ims.npy#5"], r"row 3: train_ims.npy#5 does not exist, the file has shape \(5, 3\)"),
    (rows(), ["cat.jpg", *GOOD[1:]], "row 0: file 'cat.jpg' names no row of features, expected <name>.npy#<row>"),
    (rows(), ["../train_ims.npy#0", *GOOD[1:]], "row 0: file '../train_ims.npy' lies outside its root"),
    (np.float32(1), GOOD, r"row 0: train_ims.npy#3 does not exist, the file has shape \(\)"),
    (np.array([{"a": 1}] * 5, dtype=object), GOOD, "train_ims.npy: .*Python objects"),
], ids=["nan", "row", "image", "outside", "number", "pickle"])  # fmt: skip
def test_refuses(folder: Path, array: np.ndarray, files: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        extracted(array, files)
    assert not (OUT / "features.npy").exists()


def test_a_truncated_file_and_a_changed_row(folder: Path) -> None:
    with pytest.raises(IntegrityError, match=r"row 0: train_ims.npy#3 changed after prepare read it"):
        extracted(rows(), digests=["0" * 64] * 4)
    Path("raw/train_ims.npy").write_bytes(Path("raw/train_ims.npy").read_bytes()[:-3])
    with pytest.raises(InputError, match=r"train_ims.npy: not a whole .npy file"):
        project.extract("precomp")
