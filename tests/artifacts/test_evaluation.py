import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vse_pipe.artifacts import evaluation
from vse_pipe.core import tables
from vse_pipe.core.errors import InputError

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


@pytest.mark.parametrize("values", [RANKED, MATCHED], ids=["ranked", "matched"])
def test_what_is_written_is_read(tmp_path, values):
    evaluation.write(tmp_path, {"rsum": 1.5}, ranks(values), occurrence())
    read = evaluation.read_ranks(tmp_path)
    assert read.select(ranks(values).column_names).to_pydict() == ranks(values).to_pydict()
    assert evaluation.read_occurrence(tmp_path).to_pydict() == occurrence().to_pydict()
    assert evaluation.read_metrics(tmp_path) == {"rsum": 1.5}


def test_the_columns_of_ranks_and_the_version(tmp_path):
    evaluation.write(tmp_path, {}, ranks(RANKED), occurrence())
    read = evaluation.read_ranks(tmp_path)
    assert read.column_names == [
        *["direction", "fold", "query_id", "image_id", "rank", "hit_1", "hit_5", "hit_10"],
        *["ap", "ap_at_r", "r_precision", "ndcg_10", "top"],
    ]
    assert tables.footer(read) == {"artefact": "ranks", "version": "2"}


def test_ranks_of_version_1_are_refused(tmp_path):
    evaluation.write(tmp_path, {}, ranks(RANKED), occurrence())
    path = tmp_path / evaluation.RANKS
    pq.write_table(pq.read_table(path).drop_columns(["image_id", *evaluation.MEASURES]), path)
    with pytest.raises(InputError, match=r"ranks\.parquet: column 'image_id' \(int64\) is missing"):
        evaluation.read_ranks(tmp_path)


def test_every_query_has_an_image(tmp_path):
    table = ranks(RANKED)
    place = table.column_names.index("image_id")
    table = table.set_column(place, "image_id", pa.array([7, None], pa.int64()))
    with pytest.raises(ValueError, match="image_id"):
        evaluation.write(tmp_path, {}, table, occurrence())


def test_recall_against_lambda_is_read_as_written_and_may_be_absent(tmp_path):
    curve = {
        "direction": ["image_to_text"] * 2,
        "k": pa.array([1, 1], pa.int32()),
        "lambda": [1.0, 2.5],
        "validation": [40.0, 41.5],
        "ranked": [39.0, 38.0],
        "chosen": [False, True],
    }
    evaluation.write(tmp_path, {}, ranks(MATCHED), occurrence())
    assert evaluation.read_relaxation(tmp_path) is None
    evaluation.write(tmp_path, {}, ranks(MATCHED), occurrence(), pa.table(curve))
    assert evaluation.read_relaxation(tmp_path).to_pydict() == pa.table(curve).to_pydict()
    pq.write_table(pa.table(curve).drop_columns(["chosen"]), tmp_path / evaluation.RELAXATION)
    with pytest.raises(InputError, match=r"relaxation\.parquet: column 'chosen' \(bool\) is missing"):
        evaluation.read_relaxation(tmp_path)
