from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.hostile import bytes_as_text
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource
from vse_pipe.core.parquet import Parquet
from vse_pipe.evaluate.external import readers

VALUES = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


def vectors(path: Path, column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    pq.write_table(pa.table({"image_id": np.arange(len(column)) + 7, "embedding": column}), path)
    return readers.parquet_vectors(path, readers.read_parquet(path, ["image_id", "embedding"]), "image_id")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.parquet"


@pytest.mark.parametrize("width", [pa.float16(), pa.float32(), pa.float64()])
@pytest.mark.parametrize("kind", [pa.list_, pa.large_list, lambda value: pa.list_(value, 2)])
def test_lists_of_any_kind_become_rows(path, kind, width):
    found = vectors(path, pa.array(list(VALUES.astype(width.to_pandas_dtype())), kind(width)))
    assert found.dtype == width.to_pandas_dtype()
    np.testing.assert_array_equal(found, VALUES)


def test_row_groups_are_joined_in_order(path):
    column = pa.array(list(VALUES), pa.list_(pa.float32(), 2))
    pq.write_table(pa.table({"image_id": [1, 2, 3], "embedding": column}), path, row_group_size=1)
    table = readers.read_parquet(path, ["image_id", "embedding"])
    np.testing.assert_array_equal(readers.parquet_vectors(path, table, "image_id"), VALUES)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1.0, 2.0]), "column 'embedding' is double, expected lists of float16"),
        (pa.array([[1, 2]]), "column 'embedding' is list<.*int64>, expected lists"),
        (pa.array([[1.0], None]), "column 'embedding' has 1 nulls"),
        (pa.array([[1.0, None], [None, 2.0]]), "column 'embedding' has 2 nulls inside its lists"),
        (
            pa.array([[1.0, 2.0], [1.0], [1.0]]),
            "2 vectors of another length than the first, which has 2 values: image_id 8",
        ),
        (pa.array([], pa.list_(pa.float32())), "no rows"),
    ],
)
def test_what_is_no_matrix_is_refused(path, column, message):
    with pytest.raises(InputError, match=message):
        vectors(path, column)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array(["cat.jpg", "Cat.jpg"]), "image_id 'Cat.jpg' differs from 'cat.jpg' in capitals only"),
        (pa.array([1.0]), "column 'image_id' is double, expected int64 or text$"),
        (pa.array([1, None]), "column 'image_id' has 1 nulls"),
        (pa.array([2**63], pa.uint64()), "column 'image_id' has values beyond int64"),
    ],
)
def test_ids_are_integers(path, column, message):
    pq.write_table(pa.table({"image_id": column}), path)
    with pytest.raises(InputError, match=message):
        readers.parquet_ids(path, readers.read_parquet(path, ["image_id"]), "image_id")


def test_small_integers_are_ids_too(path):
    pq.write_table(pa.table({"image_id": pa.array([3, 1], pa.uint8())}), path)
    found = readers.parquet_ids(path, readers.read_parquet(path, ["image_id"]), "image_id")
    assert found.tolist() == [3, 1]
    assert found.dtype == np.int64


def test_a_missing_column_is_named_with_those_that_are_there(path):
    pq.write_table(pa.table({"id": [1], "vector": [[1.0]]}), path)
    with pytest.raises(InputError, match="column 'image_id' is missing; the file has id, vector"):
        readers.read_parquet(path, ["image_id", "embedding"])


def test_missing_empty_and_damaged_files(path):
    with pytest.raises(MissingResource, match="does not exist"):
        readers.read_parquet(path, ["image_id"])
    path.write_bytes(b"")
    with pytest.raises(InputError, match="the file is empty"):
        readers.read_parquet(path, ["image_id"])
    pq.write_table(pa.table({"image_id": np.arange(500)}), path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(IntegrityError, match="damaged Parquet file"):
        readers.read_parquet(path, ["image_id"])


def test_a_flipped_bit_is_found_by_the_checksum(path):
    column = pa.array(list(np.random.default_rng(0).random((500, 8))))
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    pq.write_table(pa.table({"image_id": np.arange(500), "embedding": column}), path, **options)
    whole = path.read_bytes()
    place = pq.read_metadata(path).row_group(0).column(1).data_page_offset + 20_000
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    assert pq.read_table(path).num_rows == 500, "nothing but the checksum may show it"
    with pytest.raises(IntegrityError, match="damaged Parquet file"):
        readers.read_parquet(path, ["image_id", "embedding"])


def test_a_footer_that_is_no_text_is_damage(path):
    pq.write_table(pa.table({"image_id": [1]}).replace_schema_metadata({"run": "marked"}), path)
    path.write_bytes(path.read_bytes().replace(b"marked", b"m\xffrked"))
    with pytest.raises(IntegrityError, match="damaged Parquet file"):
        readers.read_parquet(path, ["image_id"])


@pytest.mark.parametrize("packed", [False, True])
def test_bytes_that_are_no_text_are_one_line(path, packed):
    column = bytes_as_text(b"\xff", b"a")
    pq.write_table(pa.table({"image_id": column.dictionary_encode() if packed else column}), path)
    with pytest.raises(InputError, match=r"a\.parquet: column 'image_id' cannot be read: .*Invalid UTF8 sequence"):
        readers.read_parquet(path, ["image_id"])


def test_a_file_that_is_written_anew_while_it_is_read_is_refused(path, monkeypatch):
    pq.write_table(pa.table({"image_id": [3, 1]}), path)
    other, run = path.with_name("other"), Parquet.read
    pq.write_table(pa.table({"image_id": [1, 3]}), other)
    monkeypatch.setattr(Parquet, "read", lambda *of: (run(*of), other.replace(path))[0])
    with pytest.raises(IntegrityError, match="written anew while it was read; run the same command again"):
        readers.read_parquet(path, ["image_id"])
