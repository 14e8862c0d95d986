"""Ids mean the same in whatever file they stand."""

import importlib.util
import mmap
import os
import sys
import threading
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.hostile import Hostile, bytes_as_text
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource
from vse_pipe.evaluate import judgements, readers
from vse_pipe.evaluate.judgements import Names
from vse_pipe.evaluate.readers import Book
from vse_pipe.ranking.recall import Truth

_NUMBERS = [2**53 - 1, 2**53, 2**53 + 1, 10**18 - 1, 10**18, 1212345678901234567, 2**63 - 1, -(2**63), 0, 7]
_BEYOND = ["7", str(2**63)]


def _npy(path, ids, book):
    np.save(path / "a.npy", ids)
    return readers.npy_ids(path / "a.npy", len(ids), "v.npy", "image_id", book)


def _lines(path, ids, book):
    (path / "c.txt").write_text("\n".join(ids) + "\n")
    return readers.npy_ids(path / "c.txt", len(ids), "v.npy", "image_id", book)


def _column(path, column, book):
    pq.write_table(pa.table({"image_id": column}), path / "d.parquet")
    table = readers.read_parquet(path / "d.parquet", ["image_id"])
    return readers.parquet_ids(path / "d.parquet", table, "image_id", book)


def _judged(path, lines, book):
    (path / "e.txt").write_text("\n".join(lines))
    return readers.read_qrels(str(path / "e.txt"), book).pairs["text_to_image"][1]


def _judged_column(path, ids, book):
    pq.write_table(pa.table({"caption_id": np.arange(len(ids)), "image_id": ids}), path / "g.parquet")
    return readers.read_qrels(str(path / "g.parquet"), book).pairs["text_to_image"][1]


def _rows(form, ids):
    return [form.format(row, name) for row, name in enumerate(ids)]


# Each writes ids to a file of its kind and reads them: first files of vectors, then of judgements.
_READ = {
    "array": lambda path, ids, book: _npy(path, np.array([int(name) for name in ids], np.int64), book),
    "integers": lambda path, ids, book: _column(path, pa.array([int(name) for name in ids], pa.int64()), book),
    "array of text": lambda path, ids, book: _npy(path, np.array(ids), book),
    "lines": _lines,
    "texts": lambda path, ids, book: _column(path, pa.array(ids, pa.string()), book),
    "words": lambda path, ids, book: _column(path, pa.array(ids, pa.large_string()).dictionary_encode(), book),
    "judged lines": lambda path, ids, book: _judged(path, ["caption_id image_id", *_rows("{} {}", ids)], book),
    "trec lines": lambda path, ids, book: _judged(path, _rows("{} 0 {} 1", ids), book),
    "judged column": _judged_column,
}
_TYPED, _UNTYPED = list(_READ)[:2], list(_READ)[2:]


@pytest.mark.parametrize("read", _READ)
def test_what_int64_holds_is_a_number_in_every_file(tmp_path, read):
    book = Book()
    assert _READ[read](tmp_path, list(map(str, _NUMBERS)), book).tolist() == _NUMBERS
    assert not book.texts("image_id")
    assert book.names() is None


@pytest.mark.parametrize(("first", "second"), [*product(_UNTYPED[:4], _UNTYPED)])
def test_what_int64_does_not_hold_is_text_in_every_file(tmp_path, first, second):
    """The ids of one side are text throughout, those among them that look like numbers too."""
    book = Book()
    assert _READ[first](tmp_path, _BEYOND, book).tolist() == [0, 1]
    assert _READ[second](tmp_path, ["7"], book).tolist() == [0]
    assert _READ[second](tmp_path, _BEYOND[::-1], book).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("first", "ids", "second", "others"),
    [
        *((one, ["7", "8"], other, _BEYOND) for one, other in product([*_TYPED, *_UNTYPED[:4]], _UNTYPED)),
        *((one, _BEYOND, other, ["7"]) for one, other in product(_UNTYPED[:4], _TYPED)),
    ],
)
def test_numbers_and_what_is_none_are_refused_beside_each_other(tmp_path, first, ids, second, others):
    book = Book()
    _READ[first](tmp_path, ids, book)
    message = "write them alike" if second in _TYPED else "write them alike|is not an integer"
    with pytest.raises(InputError, match=message):
        _READ[second](tmp_path, others, book)


@pytest.mark.parametrize("ending", ["csv", "txt", "parquet"])
def test_judgements_and_labels_name_every_number(tmp_path, ending):
    path = tmp_path / f"labels.{ending}"
    if ending == "parquet":
        pq.write_table(pa.table({"image_id": pa.array(_NUMBERS, pa.int64()), "label": ["a"] * len(_NUMBERS)}), path)
    else:
        by = "," if ending == "csv" else " "
        path.write_text("\n".join([f"image_id{by}label", *(f"{number}{by}a" for number in _NUMBERS)]) + "\n")
    table = judgements.read(path, ["image_id", "label"])
    assert Names.from_key("image_id", np.array(_NUMBERS), None).find(table["image_id"]).tolist() == _NUMBERS


there = importlib.util.find_spec("eccv_caption")
installed = pytest.mark.skipif(there is None, reason="needs the package eccv_caption (extra: eccv)")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of that name with four judgements, whose code must not run."""
    data = tmp_path / "eccv_caption" / "data"
    data.mkdir(parents=True)
    (tmp_path / "eccv_caption" / "__init__.py").write_text("raise RuntimeError('imported')")
    (data / "eccv_image_to_caption.json").write_text('{"7": [70, 71], "8": [71]}')
    (data / "eccv_caption_to_image.json").write_text('{"70": [7]}')
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "eccv_caption", raising=False)
    return data


def test_each_direction_has_its_own_judgements_and_a_damaged_package_is_named(package):
    found = readers.read_qrels("eccv_caption").pairs
    assert [ids.tolist() for ids in found["image_to_text"]] == [[7, 7, 8], [70, 71, 71]]
    assert [ids.tolist() for ids in found["text_to_image"]] == [[70], [7]]
    (package / "eccv_caption_to_image.json").write_text("{")
    with pytest.raises(InputError, match=r"eccv_caption_to_image.json: not a JSON document"):
        readers.read_eccv("eccv_caption")


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingResource, match=r"--qrels cxc .* eccv_caption.*pip install 'eccv-caption"):
        readers.read_eccv("cxc")


@installed
@pytest.mark.parametrize(("name", "queries"), [("eccv_caption", (1261, 1332)), ("cxc", (5000, 24972))])
def test_the_collections_have_the_published_number_of_queries(name, queries):
    found = readers.read_eccv(name).pairs
    assert (len(set(found["image_to_text"][0])), len(set(found["text_to_image"][0]))) == queries


@installed
@pytest.mark.parametrize(("name", "short"), [("eccv_caption", "eccv"), ("cxc", "cxc")])
@pytest.mark.parametrize(("way", "direction"), [("i2t", "image_to_text"), ("t2i", "text_to_image")])
def test_recall_is_that_of_the_package(name, short, way, direction):
    """One item retrieved for each COCO test query, a correct one in about half of the cases."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it asks for two packages that it can do without
        from eccv_caption import Metrics
    metrics = Metrics()
    rng = np.random.default_rng(0)
    queries, items = (np.array(sorted(metrics.coco_gts[side])) for side in (way, way[::-1]))
    correct = getattr(metrics, f"{short}_gts")[way]
    best = rng.choice(items, len(queries))
    for place, query in enumerate(queries.tolist()):
        if query in correct and rng.random() < 0.5:
            best[place] = rng.choice(correct[query])
    ranked = {way: {query: [one] for query, one in zip(queries.tolist(), best, strict=True)}}
    expected = getattr(metrics, f"{short}_recalls")(ranked, way, K=1)[way]
    assert 0.4 < expected < 0.6
    truth = Truth.by_pairs(queries, items, *readers.read_eccv(name).pairs[direction])
    hits = truth.holds(np.arange(len(queries)), np.searchsorted(items, best))
    assert hits[truth.judged()].mean() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kind", ["<f2", "<f4", "<f8", ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_are_read_as_they_are(tmp_path, kind, order):
    values = np.arange(6).reshape(2, 3).astype(kind, order=order)
    np.save(tmp_path / "a.npy", values)
    found = readers.npy_vectors(tmp_path / "a.npy")
    np.testing.assert_array_equal(found, values)
    assert found.dtype.isnative
    assert kind == ">f4" or isinstance(found.base, np.memmap | mmap.mmap), "it stays in the file"


def test_pickled_objects_are_never_loaded(tmp_path):
    np.save(tmp_path / "a.npy", np.array([Hostile(tmp_path / "pwned.txt")], dtype=object), allow_pickle=True)
    for read in (readers.npy_vectors, lambda path: readers.npy_ids(path, 1, "b.npy")):
        with pytest.raises(InputError, match="Python objects"):
            read(tmp_path / "a.npy")
    assert not (tmp_path / "pwned.txt").exists()


NO_NPY = [b"", b"\x93NUMPY", b"\x93NUMPY\x09\x00v\x00", b"PK\x03\x04" * 9, b"\x93NUMPY\x01\x00\x04\x00{}{}"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda whole: whole[:-8], ""),
        (lambda whole: whole + b"\0" * 8, r" \(184 bytes, its header promises 176"),
        *((lambda whole, content=content: content, "") for content in NO_NPY),
    ],
)
def test_what_is_no_whole_npy_is_refused(tmp_path, change, message):
    np.save(tmp_path / "a.npy", np.ones((3, 2)))
    (tmp_path / "a.npy").write_bytes(change((tmp_path / "a.npy").read_bytes()))
    with pytest.raises(InputError, match=rf"a.npy: not a whole \.npy file{message}"):
        readers.npy_vectors(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones((2, 2), int), "an array 2 x 2 of int64; expected rows x values of float16"),
        (np.ones(3), "an array 3 of float64; expected rows x values"),
        (np.ones((2, 3, 4)), "an array 2 x 3 x 4 of float64"),
        (np.float64(1), "an array of no dimension of float64"),
        (np.ones((2, 2), complex), "of complex128"),
    ],
)
def test_vectors_are_a_float_matrix(tmp_path, array, message):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(InputError, match=message):
        readers.npy_vectors(tmp_path / "a.npy")


def test_ids_come_from_arrays_or_lines_and_zeros_in_front_make_a_text(tmp_path):
    np.save(tmp_path / "ids.npy", np.array([4, 2], np.uint16))
    (tmp_path / "ids.txt").write_bytes(b"\xef\xbb\xbf 4\r\n-2")
    assert readers.npy_ids(tmp_path / "ids.npy", 2, "a.npy").tolist() == [4, 2]
    assert readers.npy_ids(tmp_path / "ids.txt", 2, "a.npy").tolist() == [4, -2]
    (tmp_path / "ids.txt").write_text("007\n7\n")
    book = Book()
    assert readers.npy_ids(tmp_path / "ids.txt", 2, "b.npy", book=book).tolist() == [0, 1]
    assert book.texts("image_id")


NO_TEXT = np.frombuffer(np.array([0xD800, 0x61, 0x62], "<u4").tobytes(), "<U1")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1\n2\n", "2 ids for the 3 vectors of a.npy"),
        (b"1\n\n3\n", r"ids: image_id '' is empty"),
        (b"a\nb\nA\n", r"ids: image_id 'A' differs from 'a' in capitals only"),
        (b"a\nb\n" + b"c" * 201, r"ids: image_id 'c{40}'\.\.\. is longer than 200 characters"),
        (b"a\nb\nc\x07\n", r"ids: image_id 'c\\x07' holds a control character"),
        (b"", "0 ids for the 3 vectors"),
        (b"\xff\xfe1", "not UTF-8 text"),
        (np.ones(3), "an array 3 of float64; expected one integer or text for each vector"),
        (np.ones((3, 1), int), "an array 3 x 1 of int64"),
        (np.array([1, 2, 2**63], np.uint64), "id 9223372036854775808 is beyond int64"),
        (np.array([b"a", b"b", b"c"]), r"of \|S1; expected one integer or text"),
        (NO_TEXT, "ids: its ids are no text that can be written as UTF-8"),
    ],
)
def test_each_line_or_number_is_an_id_and_there_is_one_a_vector(tmp_path, content, message):
    path = tmp_path / ("ids.npy" if isinstance(content, np.ndarray) else "ids.txt")
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content)
    with pytest.raises(InputError, match=message.replace("ids: ", rf"{path.name}: ")):
        readers.npy_ids(path, 3, "a.npy")


def test_a_pipe_may_be_read(tmp_path):
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as file:
        threading.Timer(0.1, lambda: (file.write("4\n2\n"), file.close())).start()
        assert readers.npy_ids(Path(f"/dev/fd/{reading}"), 2, "a.npy").tolist() == [4, 2]
    os.close(reading)


VALUES = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


def vectors(path: Path, column: pa.Array | pa.ChunkedArray, rows: int | None = None) -> np.ndarray:
    """rows: of each group, which are joined in order."""
    table = pa.table({"image_id": np.arange(len(column)) + 7, "embedding": column})
    pq.write_table(table, path, row_group_size=rows)
    return readers.parquet_vectors(path, readers.read_parquet(path, ["image_id", "embedding"]), "image_id")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.parquet"


@pytest.mark.parametrize("width", [pa.float16(), pa.float32(), pa.float64()])
@pytest.mark.parametrize("kind", [pa.list_, pa.large_list, lambda value: pa.list_(value, 2)])
def test_lists_of_any_kind_become_rows(path, kind, width):
    for rows in (None, 1):
        found = vectors(path, pa.array(list(VALUES.astype(width.to_pandas_dtype())), kind(width)), rows)
        assert found.dtype == width.to_pandas_dtype()
        np.testing.assert_array_equal(found, VALUES)


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


def ids(path: Path, column: pa.Array) -> np.ndarray:
    pq.write_table(pa.table({"image_id": column}), path)
    return readers.parquet_ids(path, readers.read_parquet(path, ["image_id"]), "image_id")


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array(["cat.jpg", "Cat.jpg"]), "image_id 'Cat.jpg' differs from 'cat.jpg' in capitals only"),
        (pa.array([1.0]), "column 'image_id' is double, expected int64 or text$"),
        (pa.array([1, None]), "column 'image_id' has 1 nulls"),
        (pa.array([2**63], pa.uint64()), "column 'image_id' has values beyond int64"),
        *(
            (column, r"a\.parquet: column 'image_id' cannot be read: .*Invalid UTF8 sequence")
            for column in (bytes_as_text(b"\xff", b"a"), bytes_as_text(b"\xff", b"a").dictionary_encode())
        ),
    ],
)
def test_ids_are_integers_or_text(path, column, message):
    with pytest.raises(InputError, match=message):
        ids(path, column)


def test_small_integers_are_ids_too(path):
    found = ids(path, pa.array([3, 1], pa.uint8()))
    assert found.tolist() == [3, 1]
    assert found.dtype == np.int64


def _damaged(path: Path) -> None:
    pq.write_table(pa.table({"image_id": np.arange(500)}), path)
    path.write_bytes(path.read_bytes()[:-20])


def _footer_that_is_no_text(path: Path) -> None:
    pq.write_table(pa.table({"image_id": [1]}).replace_schema_metadata({"run": "marked"}), path)
    path.write_bytes(path.read_bytes().replace(b"marked", b"m\xffrked"))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda path: None, MissingResource, "does not exist"),
        (lambda path: path.write_bytes(b""), InputError, "the file is empty"),
        (_damaged, IntegrityError, "damaged Parquet file"),
        (_footer_that_is_no_text, IntegrityError, "damaged Parquet file"),
        (
            lambda path: pq.write_table(pa.table({"id": [1], "vector": [[1.0]]}), path),
            InputError,
            "column 'image_id' is missing; the file has id, vector",
        ),
    ],
    ids=["missing", "empty", "damaged", "footer", "columns"],
)
def test_files_that_cannot_be_read(path, make, error, message):
    make(path)
    with pytest.raises(error, match=message):
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


PAIRS = {(10, 1), (10, 2), (11, 2)}


def pairs(path) -> tuple[set, set]:
    """(caption, image) of both directions."""
    found = readers.read_qrels(str(path)).pairs
    both = found["text_to_image"], found["image_to_text"][::-1]
    return tuple(set(zip(*map(np.ndarray.tolist, columns), strict=True)) for columns in both)


@pytest.mark.parametrize(
    "text",
    [
        "caption_id\timage_id\n10\t1\n10\t2\n11\t2\n",
        "caption_id image_id relevance\n10 1 1\n11 1 0\n10 2 0.5\n11 2 3",
        "10 0 1 1\n10 0 2 2\n11 0 2 1\n11 0 1 0\n12 0 1 -1\n",
        "\ufeff10 Q0 1 1\r\n10 Q0 2 1\r\n11 Q0 2 1\r\n",
    ],
)
def test_text_with_a_header_or_trec_lines(tmp_path, text):
    (tmp_path / "q.txt").write_text(text, encoding="utf-8", newline="")
    assert pairs(tmp_path / "q.txt") == (PAIRS, PAIRS)


@pytest.mark.parametrize("grades", [None, [1, 1, 1, 0], [0.5, 1.0, 2.0, 0.0]])
def test_parquet(tmp_path, grades):
    table = pa.table({"image_id": [1, 2, 2, 1], "caption_id": [10, 10, 11, 11]})
    table = table.append_column("relevance", [grades]) if grades else table[:3]
    pq.write_table(table, tmp_path / "q.parquet")
    assert pairs(tmp_path / "q.parquet") == (PAIRS, PAIRS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no judgements; expected lines of caption_id image_id"),
        ("caption_id image_id\n", "no judgements"),
        ("caption_id image\n1 2\n", "line 1: columns caption_id image; expected caption_id image_id"),
        ("caption_id image_id\n1 2\n1\n", "line 3: 1 fields; expected caption_id image_id"),
        ("1 0 2 1\n1 2\n", "line 2: 2 fields; expected caption_id 0 image_id relevance, or a header"),
        ("caption_id image_id\n1 2\nx 3\n", "line 3: caption_id 'x' is not an integer"),
        ("1 0 2 yes\n", "line 1: relevance 'yes' is not a number"),
        ("1 0 2 nan\n", "line 1: relevance 'nan' is not a number"),
        ("1 0 2 0\n", "no pair with a relevance above 0 among 1 lines"),
        ("\udcff\udcfe", "not UTF-8 text"),
    ],
)
def test_unfit_text_is_refused_with_its_line(tmp_path, text, message):
    (tmp_path / "q.txt").write_text(text, errors="surrogateescape")
    with pytest.raises(InputError, match=message):
        readers.read_qrels(str(tmp_path / "q.txt"))


def test_unfit_files(tmp_path):
    with pytest.raises(MissingResource, match=r"q\.tsv does not exist"):
        readers.read_qrels(str(tmp_path / "q.tsv"))
    pq.write_table(pa.table({"caption_id": [1], "image_id": [2], "relevance": ["1"]}), tmp_path / "q.parquet")
    with pytest.raises(InputError, match="column 'relevance' is string, expected numbers"):
        readers.read_qrels(str(tmp_path / "q.parquet"))
