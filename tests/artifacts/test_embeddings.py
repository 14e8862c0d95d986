"""Vectors that stay in their file: the rows that are asked for, and no row group beside theirs."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipeline.artifacts import contents, embeddings
from pipeline.artifacts.embeddings import Side, StoredVectors
from pipeline.core.errors import InputError
from pipeline.core.parquet import Parquet

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


def test_what_holds_no_vectors_is_refused(tmp_path: Path, path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.parquet does not exist"):
        StoredVectors.of(tmp_path / "none.parquet")
    contents.write(tmp_path, pa.array(["a"]), "made")
    with pytest.raises(InputError, match="column 'embedding' is missing"):
        StoredVectors.of(tmp_path / contents.NAME)
