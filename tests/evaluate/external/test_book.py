"""Ids mean the same in whatever file they stand."""

from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vse_pipe.core.errors import InputError
from vse_pipe.evaluate import judgements
from vse_pipe.evaluate.external import readers
from vse_pipe.evaluate.external.readers import Book
from vse_pipe.evaluate.judgements import Names

_NUMBERS = [2**53 - 1, 2**53, 2**53 + 1, 10**18 - 1, 10**18, 1212345678901234567, 2**63 - 1, -(2**63), 0, 7]
_BEYOND = ["7", str(2**63)]


def _array(path, ids, book):
    np.save(path / "a.npy", np.array([int(name) for name in ids], np.int64))
    return readers.npy_ids(path / "a.npy", len(ids), "v.npy", "image_id", book)


def _array_of_text(path, ids, book):
    np.save(path / "b.npy", np.array(ids))
    return readers.npy_ids(path / "b.npy", len(ids), "v.npy", "image_id", book)


def _lines(path, ids, book):
    (path / "c.txt").write_text("\n".join(ids) + "\n")
    return readers.npy_ids(path / "c.txt", len(ids), "v.npy", "image_id", book)


def _column(path, column, book):
    pq.write_table(pa.table({"image_id": column}), path / "d.parquet")
    return readers.parquet_ids(
        path / "d.parquet", readers.read_parquet(path / "d.parquet", ["image_id"]), "image_id", book
    )


def _integers(path, ids, book):
    return _column(path, pa.array([int(name) for name in ids], pa.int64()), book)


def _texts(path, ids, book):
    return _column(path, pa.array(ids, pa.string()), book)


def _words(path, ids, book):
    return _column(path, pa.array(ids, pa.large_string()).dictionary_encode(), book)


def _judged(path, book):
    return readers.read_qrels(str(path), book).pairs["text_to_image"][1]


def _judged_lines(path, ids, book):
    (path / "e.txt").write_text("\n".join(["caption_id image_id", *(f"{row} {name}" for row, name in enumerate(ids))]))
    return _judged(path / "e.txt", book)


def _trec_lines(path, ids, book):
    (path / "f.txt").write_text("".join(f"{row} 0 {name} 1\n" for row, name in enumerate(ids)))
    return _judged(path / "f.txt", book)


def _judged_column(path, ids, book):
    pq.write_table(pa.table({"caption_id": np.arange(len(ids)), "image_id": ids}), path / "g.parquet")
    return _judged(path / "g.parquet", book)


_TYPED = [_array, _integers]
_UNTYPED = [_array_of_text, _lines, _texts, _words, _judged_lines, _trec_lines, _judged_column]


@pytest.mark.parametrize("read", [*_TYPED, *_UNTYPED])
def test_what_int64_holds_is_a_number_in_every_file(tmp_path, read):
    book = Book()
    assert read(tmp_path, list(map(str, _NUMBERS)), book).tolist() == _NUMBERS
    assert not book.texts("image_id")
    assert book.names() is None


@pytest.mark.parametrize(("first", "second"), [*product(_UNTYPED[:4], _UNTYPED)])
def test_what_int64_does_not_hold_is_text_in_every_file(tmp_path, first, second):
    """The ids of one side are text throughout, those among them that look like numbers too."""
    book = Book()
    assert first(tmp_path, _BEYOND, book).tolist() == [0, 1]
    assert second(tmp_path, ["7"], book).tolist() == [0]
    assert second(tmp_path, _BEYOND[::-1], book).tolist() == [1, 0]


@pytest.mark.parametrize(("first", "second"), [*product([*_TYPED, *_UNTYPED[:4]], _UNTYPED)])
def test_numbers_beside_what_is_none_are_refused(tmp_path, first, second):
    book = Book()
    first(tmp_path, ["7", "8"], book)
    with pytest.raises(InputError, match=r"write them alike|is not an integer"):
        second(tmp_path, _BEYOND, book)


@pytest.mark.parametrize(("first", "second"), [*product(_UNTYPED[:4], _TYPED)])
def test_text_beside_integers_is_refused(tmp_path, first, second):
    book = Book()
    first(tmp_path, _BEYOND, book)
    with pytest.raises(InputError, match="write them alike"):
        second(tmp_path, ["7"], book)


@pytest.mark.parametrize("ending", ["csv", "txt", "parquet"])
def test_judgements_and_labels_name_every_number(tmp_path, ending):
    path = tmp_path / f"labels.{ending}"
    if ending == "parquet":
        pq.write_table(pa.table({"image_id": pa.array(_NUMBERS, pa.int64()), "label": ["a"] * len(_NUMBERS)}), path)
    else:
        by = "," if ending == "csv" else " "
        path.write_text("\n".join([f"image_id{by}label", *(f"{number}{by}a" for number in _NUMBERS)]) + "\n")
    table = judgements.read(path, ["image_id", "label"])
    assert Names.of_ids(np.array(_NUMBERS)).find(table["image_id"]).tolist() == _NUMBERS
