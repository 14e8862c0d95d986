"""features.npy written from blocks: the bytes numpy would write, whole or not at all."""

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
    features.write_blocks(tmp_path, np.split(ROWS, cuts), 5, [INDEX], {})
    np.save(tmp_path / "expected.npy", ROWS)
    assert (tmp_path / features.ARRAY).read_bytes() == (tmp_path / "expected.npy").read_bytes()
    assert features.read(tmp_path).meta["shape"] == [5, 3, 2]


def test_a_refused_block_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    features.write(tmp_path, ROWS, INDEX, {})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    bad = ROWS.copy()
    bad[3, 1, 0] = np.inf
    with pytest.raises(InputError, match="1 rows hold NaN or infinite values, the first is row 3"):
        features.write_blocks(tmp_path, np.split(bad, [2]), 5, [INDEX], {})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("blocks", [[], [ROWS[:2]], [ROWS, ROWS[:1]]])
def test_another_number_of_rows_than_announced(tmp_path: Path, blocks: list[np.ndarray]) -> None:
    with pytest.raises(ValueError, match="rows in the blocks, 5 were announced"):
        features.write_blocks(tmp_path, blocks, 5, [INDEX], {})
    assert list(tmp_path.iterdir()) == []


def _written(folder):
    index = pa.table({"image_id": [1, 2], "row": [0, 1], "status": ["ok"] * 2, "detail": [""] * 2})
    features.write(folder, np.ones((2, 3), np.float32), index, {})


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00"])
def test_an_array_that_is_cut_short_or_none(tmp_path, content):
    _written(tmp_path)
    (tmp_path / features.ARRAY).write_bytes(content)
    with pytest.raises(IntegrityError, match=r"features\.npy: not a whole \.npy file"):
        features.read(tmp_path)


def test_meta_without_a_digest(tmp_path):
    _written(tmp_path)
    (tmp_path / features.META).write_text("{}")
    with pytest.raises(IntegrityError, match=r"meta\.json: holds no digest of features\.npy"):
        features.read(tmp_path, verify=False)
