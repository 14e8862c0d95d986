"""Files of vectors, and of figures."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vse_pipe.artifacts import embeddings, evaluation
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.core.errors import InputError, IntegrityError

RNG = np.random.default_rng(2)


def _block(split: str, first: int, lengths: list[int], dim: int = 3) -> Side:
    ids = np.arange(first, first + len(lengths), dtype=np.int64)
    vectors = RNG.standard_normal((sum(lengths), dim)).astype(np.float32)
    return Side(ids, ids // 2, np.array([split] * len(ids)), vectors, {}, np.array(lengths))


SCHEMA = embeddings.fragment_schema("captions", 3)
BLOCKS = [_block("val", 0, [2, 1]), _block("test", 2, [3]), _block("val", 3, [1, 4, 2])]


@pytest.fixture
def fragments(tmp_path) -> Path:
    embeddings.write_each(tmp_path / "captions.parquet", SCHEMA, iter(BLOCKS), {"run": "scan"})
    return tmp_path / "captions.parquet"


def test_a_split_comes_back_with_its_ids_and_vectors(fragments):
    side = embeddings.read(fragments)
    assert side.ids.tolist() == [0, 1, 2, 3, 4, 5]
    assert side.splits.tolist() == ["val", "val", "test", "val", "val", "val"]
    assert side.about["run"] == "scan"
    found = side.split("val")
    assert found.ids.tolist() == [0, 1, 3, 4, 5]
    assert found.image_ids.tolist() == [0, 0, 1, 2, 2]
    assert found.lengths.tolist() == [2, 1, 1, 4, 2]
    np.testing.assert_array_equal(found.vectors, np.concatenate([BLOCKS[0].vectors, BLOCKS[2].vectors]))
    np.testing.assert_array_equal(side.split("test").vectors, BLOCKS[1].vectors)


def test_only_the_row_groups_of_the_split_are_read(fragments, monkeypatch):
    side, asked, real = embeddings.read(fragments), set(), pq.ParquetFile.iter_batches
    monkeypatch.setattr(
        *(pq.ParquetFile, "iter_batches"),
        lambda self, rows, row_groups, **rest: asked.update(row_groups) or real(self, rows, row_groups, **rest),
    )
    side.split("val")
    assert asked == {0, 2}


def test_nothing_is_left_of_vectors_that_are_not_finite(tmp_path):
    block = _block("test", 2, [3])
    block.vectors[1, 1] = np.inf
    with pytest.raises(InputError, match="NaN or infinite"):
        embeddings.write_each(tmp_path / "captions.parquet", SCHEMA, iter([BLOCKS[0], block]), {})
    assert not list(tmp_path.iterdir())


def test_fragments_that_are_damaged_are_refused(fragments):
    fragments.write_bytes(fragments.read_bytes()[:-20])
    with pytest.raises(IntegrityError, match="damaged Parquet file"):
        embeddings.read(fragments).split("val")


RANKED = {"rank": [1.0, 2.5], **{name: [1.0, 0.25] for name in evaluation.MEASURES}}
MATCHED = {name: [None, None] for name in RANKED}


def ranks(values: dict) -> pa.Table:
    columns = {
        "direction": ["text_to_image"] * 2,
        "fold": pa.array([0, 0], pa.int32()),
        "query_id": [70, 71],
        "image_id": [7, 7],
        **{name: pa.array(column, pa.float64()) for name, column in values.items()},
        **{f"hit_{k}": [True, False] for k in evaluation.KS},
        "top": [[7, 8], [8]],
    }
    return pa.table(columns)


def occurrence() -> pa.Table:
    counts = {f"n_{k}": np.array([1, 2], np.int32) for k in evaluation.KS}
    return pa.table({"direction": ["text_to_image"] * 2, "fold": np.zeros(2, np.int32), "item_id": [7, 8], **counts})


def contents(rank_table: pa.Table, relaxation: pa.Table | None = None) -> dict[str, pa.Table]:
    tables = {evaluation.RANKS: rank_table, evaluation.OCCURRENCE: occurrence(), evaluation.RELAXATION: relaxation}
    return {name: table for name, table in tables.items() if table is not None}


@pytest.mark.parametrize("values", [RANKED, MATCHED], ids=["ranked", "matched"])
def test_what_is_written_is_read(tmp_path, values):
    evaluation.write(tmp_path, {"rsum": 1.5}, contents(ranks(values)))
    read = evaluation.read_ranks(tmp_path)
    assert read.select(ranks(values).column_names).to_pydict() == ranks(values).to_pydict()
    assert evaluation.read_occurrence(tmp_path).to_pydict() == occurrence().to_pydict()
    assert evaluation.read_metrics(tmp_path) == {"rsum": 1.5}
