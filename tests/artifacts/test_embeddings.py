"""Vectors that stay in their file: the rows that are asked for, and no row group beside theirs."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from vse_pipe.artifacts import embeddings, joins
from vse_pipe.artifacts.embeddings import Side, StoredVectors
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.parquet import Parquet

SIZES = (5, 1, 7)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rng, first = np.random.default_rng(0), 0
    sides = []
    for size in SIZES:
        ids = np.arange(first, first + size)
        sides.append(Side(ids, ids, np.array(["test"] * size), rng.random((size, 3), np.float32), {}))
        first += size
    embeddings.write_each(tmp_path / "images.parquet", iter(sides), {})
    return tmp_path / "images.parquet"


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Row groups, in the order in which they are read."""
    read: list[int] = []
    run = Parquet.batches
    monkeypatch.setattr(
        Parquet, "batches", lambda self, columns, of, rows: read.extend(of or ()) or run(self, columns, of, rows)
    )
    return read


@pytest.mark.parametrize("block", [2, 100])
@pytest.mark.parametrize(
    ("rows", "read"),
    [
        ([12, 0, 5, 3, 3, 8], [0, 1, 2]),
        ([6, 12], [2]),
        ([5], [1]),
        ([4, 4, 0], [0]),
        ([], []),
        (range(12, -1, -1), [0, 1, 2]),
    ],
)
def test_rows_in_any_order(path: Path, groups: list[int], monkeypatch, block: int, rows: list, read: list) -> None:
    whole = embeddings.read(path).vectors
    groups.clear()
    monkeypatch.setattr(embeddings, "_ROWS", block)
    asked = np.array(rows, np.int64)
    stored = StoredVectors.of(path)
    assert (stored.count, stored.dim) == (13, 3)
    assert np.array_equal(stored.take(asked), whole[asked])
    assert groups == read


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((9, 3), "written anew while it was read; run the same command again"),
        ((13, 3), "written anew"),
        ((13, 1), "written anew"),
        ((13, 4), "written anew"),
        (None, "removed while it was read; make it again, then run the same command again"),
    ],
)
def test_a_file_that_is_another_one_by_now_is_refused(path: Path, shape: tuple | None, message: str) -> None:
    stored = StoredVectors.of(path)
    if shape is None:
        path.unlink()
    else:
        ids = np.arange(shape[0])
        embeddings.write(path, Side(ids, ids, np.array(["test"] * shape[0]), np.ones(shape, np.float32), {}))
    with pytest.raises(IntegrityError, match=rf"images\.parquet: {message}"):
        stored.take(np.array([0, 8]))


def test_a_file_that_is_written_anew_while_row_groups_are_read_is_refused(path: Path, monkeypatch) -> None:
    stored, other, run = StoredVectors.of(path), path.with_name("other"), Parquet.batches
    other.write_bytes(path.read_bytes())
    monkeypatch.setattr(Parquet, "batches", lambda *of: (other.replace(path), run(*of))[-1])
    with pytest.raises(IntegrityError, match=r"images\.parquet: written anew"):
        stored.take(np.array([0]))


def test_what_holds_no_vectors_is_refused(tmp_path: Path, path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.parquet does not exist"):
        StoredVectors.of(tmp_path / "none.parquet")
    joins.write(tmp_path, pa.array(["a"]), "made")
    with pytest.raises(InputError, match="column 'embedding' is missing"):
        StoredVectors.of(tmp_path / joins.NAME)
