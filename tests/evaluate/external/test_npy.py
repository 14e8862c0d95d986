import mmap
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.hostile import Hostile
from vse_pipe.core import arrays, memory
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.evaluate.external import inputs, readers, vectors
from vse_pipe.evaluate.external.readers import Book


@pytest.mark.parametrize("kind", ["<f2", "<f4", "<f8", ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_are_read_as_they_are(tmp_path, kind, order):
    values = np.arange(6).reshape(2, 3).astype(kind, order=order)
    np.save(tmp_path / "a.npy", values)
    found = readers.npy_vectors(tmp_path / "a.npy")
    np.testing.assert_array_equal(found, values)
    assert found.dtype.isnative


def test_pickled_objects_are_never_loaded(tmp_path):
    np.save(tmp_path / "a.npy", np.array([Hostile(tmp_path / "pwned.txt")], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="holds pickled Python objects, which are never loaded"):
        readers.npy_vectors(tmp_path / "a.npy")
    with pytest.raises(InputError, match="holds pickled Python objects"):
        readers.npy_ids(tmp_path / "a.npy", 1, "b.npy")
    assert not (tmp_path / "pwned.txt").exists()


@pytest.mark.parametrize(("cut", "found"), [(-8, 168), (8, 184)])
def test_a_file_of_another_size_than_its_header_says_is_refused(tmp_path, cut, found):
    np.save(tmp_path / "a.npy", np.ones((3, 2)))
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(whole[:cut] if cut < 0 else whole + b"\0" * cut)
    with pytest.raises(InputError, match=rf"a.npy: not a whole \.npy file \({found} bytes, its header promises 176"):
        readers.npy_vectors(tmp_path / "a.npy")


@pytest.mark.parametrize(
    "content", [b"", b"\x93NUMPY", b"\x93NUMPY\x09\x00v\x00", b"PK\x03\x04" * 9, b"\x93NUMPY\x01\x00\x04\x00{}{}"]
)
def test_what_is_no_npy_is_refused(tmp_path, content):
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(InputError, match=r"not a whole \.npy file"):
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


def test_ids_come_from_arrays_or_lines(tmp_path):
    np.save(tmp_path / "ids.npy", np.array([4, 2], np.uint16))
    (tmp_path / "ids.txt").write_bytes(b"\xef\xbb\xbf 4\r\n-2")
    assert readers.npy_ids(tmp_path / "ids.npy", 2, "a.npy").tolist() == [4, 2]
    assert readers.npy_ids(tmp_path / "ids.txt", 2, "a.npy").tolist() == [4, -2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n2\n", "2 ids for the 3 vectors of a.npy"),
        ("1\n\n3\n", r"ids.txt: image_id '' is empty"),
        ("a\nb\nA\n", r"ids.txt: image_id 'A' differs from 'a' in capitals only"),
        ("a\nb\n" + "c" * 201, r"ids.txt: image_id 'c{40}'\.\.\. is longer than 200 characters"),
        ("a\nb\nc\x07\n", r"ids.txt: image_id 'c\\x07' holds a control character"),
        ("", "0 ids for the 3 vectors"),
    ],
)
def test_each_line_is_an_id_and_there_is_one_a_vector(tmp_path, text, message):
    (tmp_path / "ids.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        readers.npy_ids(tmp_path / "ids.txt", 3, "a.npy")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(3), "an array 3 of float64; expected one integer or text for each vector"),
        (np.ones((3, 1), int), "an array 3 x 1 of int64"),
        (np.array([1, 2, 2**63], np.uint64), "id 9223372036854775808 is beyond int64"),
        (np.array([b"a", b"b", b"c"]), r"of \|S1; expected one integer or text"),
    ],
)
def test_an_array_of_ids_is_a_row_of_integers(tmp_path, array, message):
    np.save(tmp_path / "ids.npy", array)
    with pytest.raises(InputError, match=message):
        readers.npy_ids(tmp_path / "ids.npy", 3, "a.npy")


def test_a_text_file_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "ids.txt").write_bytes(b"\xff\xfe1")
    with pytest.raises(InputError, match="not UTF-8 text"):
        readers.npy_ids(tmp_path / "ids.txt", 1, "a.npy")


def test_code_points_that_are_no_text_are_one_line(tmp_path):
    array = np.frombuffer(np.array([0xD800, 0x61], "<u4").tobytes(), "<U1")
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(InputError, match=r"a\.npy: its ids are no text that can be written as UTF-8"):
        readers.npy_ids(tmp_path / "a.npy", 2, "b.npy")


def test_zeros_in_front_make_a_text(tmp_path):
    (tmp_path / "ids.txt").write_text("007\n7\n")
    book = Book()
    assert readers.npy_ids(tmp_path / "ids.txt", 2, "b.npy", book=book).tolist() == [0, 1]
    assert book.texts("image_id")


def test_vectors_stay_in_the_file(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(3))
    assert isinstance(readers.npy_vectors(tmp_path / "a.npy").base, np.memmap | mmap.mmap)


@pytest.fixture
def changing(monkeypatch) -> Callable:
    """Let the next call of a function find other numbers in the array of a file, as another process may write them."""

    def change(path: Path, module, name: str) -> None:
        function, waiting = getattr(module, name), [True]

        def changed(*args):
            if waiting:
                waiting.clear()
                np.load(path, mmap_mode="r+")[-1] += 1
                os.utime(path, ns=(0, 0))
            return function(*args)

        monkeypatch.setattr(module, name, changed)

    return change


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("nan", ["refuse", "drop"])
@pytest.mark.parametrize("read", [inputs.read_images, inputs.read_captions])
def test_a_file_that_changes_while_it_is_checked_is_refused(tmp_path, changing, read, similarity, nan):
    np.save(tmp_path / "a.npy", np.array([[1, 2], [np.nan, 1] if nan == "drop" else [3, 1], [2, 2]], np.float32))
    changing(tmp_path / "a.npy", vectors, "warn" if nan == "drop" else "_blocks")
    with pytest.raises(IntegrityError, match=r"a\.npy: changed while it was read; make it again, then run"):
        read(tmp_path / "a.npy", similarity, nan=nan)


@pytest.mark.parametrize(
    ("array", "read"),
    [(np.ones((3, 2), ">f4"), readers.npy_vectors), (np.arange(3), lambda path: readers.npy_ids(path, 3, "b.npy"))],
    ids=["bytes turned", "ids"],
)
def test_a_file_that_changes_while_it_is_copied_is_refused(tmp_path, changing, array, read):
    np.save(tmp_path / "a.npy", array)
    changing(tmp_path / "a.npy", memory, "take")
    with pytest.raises(IntegrityError, match=r"a\.npy: changed while it was read"):
        read(tmp_path / "a.npy")


@pytest.mark.parametrize(
    "read", [lambda path: readers.npy_ids(path, 3, "b.npy"), lambda path: readers.read_qrels(str(path))]
)
def test_a_text_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch, read):
    (tmp_path / "a.txt").write_text("1 0 1 1\n2 0 2 1\n")
    whole = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda path, **how: (whole(path, **how), path.write_text("1\n"))[0])
    with pytest.raises(IntegrityError, match=r"a\.txt: written anew while it was read; run the same command again"):
        read(tmp_path / "a.txt")


def test_a_pipe_may_be_read(tmp_path):
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as file:
        threading.Timer(0.1, lambda: (file.write("4\n2\n"), file.close())).start()
        assert readers.npy_ids(Path(f"/dev/fd/{reading}"), 2, "a.npy").tolist() == [4, 2]
    os.close(reading)


def test_a_header_and_numbers_of_two_files_are_refused(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.ones((2, 3)))
    np.save(tmp_path / "b.npy", np.ones((3, 2)))
    header = arrays._header
    monkeypatch.setattr(arrays, "_header", lambda *of: (header(*of), (tmp_path / "b.npy").replace(of[2]))[0])
    with pytest.raises(IntegrityError, match=r"a\.npy: written anew while it was read; run the same command again"):
        readers.npy_vectors(tmp_path / "a.npy")
