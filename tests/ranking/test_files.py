"""Files of vectors and ids; ids mean the same in whatever file they stand."""

import mmap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.hostile import Hostile, bytes_as_text
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource
from vse_pipe.evaluate.judgements import read_qrels
from vse_pipe.ranking import files
from vse_pipe.ranking.files import Book

_NUMBERS = [2**53 - 1, 2**53, 2**53 + 1, 10**18 - 1, 10**18, 1212345678901234567, 2**63 - 1, -(2**63), 0, 7]
_BEYOND = ["7", str(2**63)]


def _npy(path, ids, book):
    np.save(path / "a.npy", ids)
    return book.numbers("image_id", "a.npy", files.read_ids(path / "a.npy", len(ids), "v.npy"))


def _lines(path, ids, book):
    (path / "c.txt").write_text("\n".join(ids) + "\n")
    return book.numbers("image_id", "c.txt", files.read_ids(path / "c.txt", len(ids), "v.npy"))


def _column(path, column, book):
    pq.write_table(pa.table({"image_id": column}), path / "d.parquet")
    table = files.read_parquet(path / "d.parquet", ["image_id"])
    return book.numbers("image_id", "d.parquet", files.parquet_ids(path / "d.parquet", table, "image_id"))


def _judged(path, lines, book):
    (path / "e.txt").write_text("\n".join(lines))
    return read_qrels(str(path / "e.txt"), book).pairs["text_to_image"][1]


# Each writes ids to a file of its kind and reads them: first files of vectors, then of judgements.
_READ = {
    "array": lambda path, ids, book: _npy(path, np.array([int(name) for name in ids], np.int64), book),
    "integers": lambda path, ids, book: _column(path, pa.array([int(name) for name in ids], pa.int64()), book),
    "array of text": lambda path, ids, book: _npy(path, np.array(ids), book),
    "lines": _lines,
    "texts": lambda path, ids, book: _column(path, pa.array(ids, pa.string()), book),
    "words": lambda path, ids, book: _column(path, pa.array(ids, pa.large_string()).dictionary_encode(), book),
    "trec lines": lambda path, ids, book: _judged(path, [f"{row} 0 {name} 1" for row, name in enumerate(ids)], book),
}
_TYPED, _UNTYPED = list(_READ)[:2], list(_READ)[2:]


@pytest.mark.parametrize("read", _READ)
def test_what_int64_holds_is_a_number_in_every_file(tmp_path, read):
    book = Book()
    assert _READ[read](tmp_path, list(map(str, _NUMBERS)), book).tolist() == _NUMBERS
    assert not book.texts("image_id")
    assert book.names() is None


@pytest.mark.parametrize(("first", "second"), [("lines", other) for other in _UNTYPED])
def test_what_int64_does_not_hold_is_text_in_every_file(tmp_path, first, second):
    """The ids of one side are text throughout, those among them that look like numbers too."""
    book = Book()
    assert _READ[first](tmp_path, _BEYOND, book).tolist() == [0, 1]
    assert _READ[second](tmp_path, ["7"], book).tolist() == [0]
    assert _READ[second](tmp_path, _BEYOND[::-1], book).tolist() == [1, 0]


@pytest.mark.parametrize("second", _UNTYPED)
def test_numbers_and_what_is_none_are_refused_beside_each_other(tmp_path, second):
    book = Book()
    _READ[_TYPED[0]](tmp_path, ["7", "8"], book)
    with pytest.raises(InputError, match=r"write them alike|is not an integer"):
        _READ[second](tmp_path, _BEYOND, book)


def vectors_of(path: Path) -> np.ndarray:
    return files.read_vectors(path, "image_id").vectors


@pytest.mark.parametrize(("kind", "order"), [("<f8", "F"), (">f4", "C")])
def test_arrays_are_read_as_they_are(tmp_path, kind, order):
    values = np.arange(6).reshape(2, 3).astype(kind, order=order)
    np.save(tmp_path / "a.npy", values)
    found = vectors_of(tmp_path / "a.npy")
    np.testing.assert_array_equal(found, values)
    assert found.dtype.isnative
    assert kind == ">f4" or isinstance(found.base, np.memmap | mmap.mmap), "it stays in the file"


def test_pickled_objects_are_never_loaded(tmp_path):
    np.save(tmp_path / "a.npy", np.array([Hostile(tmp_path / "pwned.txt")], dtype=object), allow_pickle=True)
    for read in (vectors_of, lambda path: files.read_ids(path, 1, "b.npy")):
        with pytest.raises(InputError, match="Python objects"):
            read(tmp_path / "a.npy")
    assert not (tmp_path / "pwned.txt").exists()


def test_ids_come_from_arrays_or_lines_and_zeros_in_front_make_a_text(tmp_path):
    np.save(tmp_path / "ids.npy", np.array([4, 2], np.uint16))
    (tmp_path / "ids.txt").write_bytes(b"\xef\xbb\xbf 4\r\n-2")
    assert files.read_ids(tmp_path / "ids.npy", 2, "a.npy").to_pylist() == ["4", "2"]
    texts = files.read_ids(tmp_path / "ids.txt", 2, "a.npy")
    assert Book().numbers("image_id", "ids.txt", texts).tolist() == [4, -2]
    (tmp_path / "ids.txt").write_text("007\n7\n")
    book = Book()
    texts = files.read_ids(tmp_path / "ids.txt", 2, "b.npy")
    assert book.numbers("image_id", "ids.txt", texts).tolist() == [0, 1]
    assert book.texts("image_id")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1\n2\n", "2 ids for the 3 vectors of a.npy"),
        (b"1\n\n3\n", r"ids: image_id '' is empty"),
        (b"\xff\xfe1", "not UTF-8 text"),
        (np.ones(3), "an array 3 of float64; expected one integer or text for each vector"),
    ],
)
def test_each_line_or_number_is_an_id_and_there_is_one_a_vector(tmp_path, content, message):
    path = tmp_path / ("ids.npy" if isinstance(content, np.ndarray) else "ids.txt")
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content)
    with pytest.raises(InputError, match=message.replace("ids: ", rf"{path.name}: ")):
        Book().numbers("image_id", path.name, files.read_ids(path, 3, "a.npy"))


VALUES = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


def vectors(path: Path, column: pa.Array | pa.ChunkedArray, rows: int | None = None) -> np.ndarray:
    """rows: of each group, which are joined in order."""
    table = pa.table({"image_id": np.arange(len(column)) + 7, "embedding": column})
    pq.write_table(table, path, row_group_size=rows)
    return files.parquet_vectors(path, files.read_parquet(path, ["image_id", "embedding"]), "image_id")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.parquet"


@pytest.mark.parametrize("width", [pa.float16(), pa.float64()])
@pytest.mark.parametrize("kind", [pa.large_list, lambda value: pa.list_(value, 2)])
def test_lists_of_any_kind_become_rows(path, kind, width):
    for rows in (None, 1):
        found = vectors(path, pa.array(list(VALUES.astype(width.to_pandas_dtype())), kind(width)), rows)
        assert found.dtype == width.to_pandas_dtype()
        np.testing.assert_array_equal(found, VALUES)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([[1, 2]]), "column 'embedding' is list<.*int64>, expected lists"),
        (pa.array([[1.0, None], [None, 2.0]]), "column 'embedding' has 2 nulls"),
        (
            pa.array([[1.0, 2.0], [1.0], [1.0]]),
            "2 vectors have not 2 values as the first has: image_id 8",
        ),
        (pa.array([], pa.list_(pa.float32())), "no rows"),
    ],
)
def test_what_is_no_matrix_is_refused(path, column, message):
    with pytest.raises(InputError, match=message):
        vectors(path, column)


def ids(path: Path, column: pa.Array) -> np.ndarray:
    pq.write_table(pa.table({"image_id": column}), path)
    stored = files.parquet_ids(path, files.read_parquet(path, ["image_id"]), "image_id")
    return Book().numbers("image_id", str(path), stored)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array(["cat.jpg", "Cat.jpg"]), "image_id 'Cat.jpg' differs from 'cat.jpg' in capitals only"),
        (pa.array([1, None]), "column 'image_id' is int64 with 1 nulls"),
        (bytes_as_text(b"\xff", b"a").dictionary_encode(), "column 'image_id' cannot be read: .*Invalid UTF8 sequence"),
    ],
)
def test_ids_are_integers_or_text(path, column, message):
    with pytest.raises(InputError, match=message):
        ids(path, column)


def _damaged(path: Path) -> None:
    pq.write_table(pa.table({"image_id": np.arange(500)}), path)
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda path: None, MissingResource, "does not exist"),
        (_damaged, IntegrityError, "damaged Parquet file"),
        (
            lambda path: pq.write_table(pa.table({"id": [1], "vector": [[1.0]]}), path),
            InputError,
            "column 'image_id' is missing; the file has id, vector",
        ),
    ],
    ids=["missing", "damaged", "columns"],
)
def test_files_that_cannot_be_read(path, make, error, message):
    make(path)
    with pytest.raises(error, match=message):
        files.read_parquet(path, ["image_id"])
