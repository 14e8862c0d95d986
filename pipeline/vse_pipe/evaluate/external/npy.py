"""Vectors and ids in .npy files and ids in text files. Nothing is unpickled and no byte is taken on trust."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.core import arrays, mapped, memory
from vse_pipe.core.errors import Damage, InputError
from vse_pipe.evaluate.external.book import Book
from vse_pipe.evaluate.external.given import given


def vectors(path: Path) -> np.ndarray:
    """A float array (rows, dim), which stays in the file unless its bytes have to be turned. Raises InputError for anything else, and
    for a file shorter or longer than it says, IntegrityError for one that was changed meanwhile."""
    array = _opened(path)
    if array.dtype.kind != "f" or array.dtype.itemsize > 8 or array.ndim != 2:
        raise InputError(f"{path}: {_described(array)}; expected rows x values of float16, float32 or float64")
    if array.dtype.isnative:
        return array
    return _copied(array, array.dtype.newbyteorder("="))


def ids(path: Path, rows: int, of: str, key: str = "image_id", book: Book | None = None) -> np.ndarray:
    """int64 (rows,) from a .npy array or a text file with one id a line, of text by its numbers in ``book``. of: the file with
    the vectors, for messages; key: image_id or caption_id."""
    found = _copied(_opened(path)) if path.suffix == ".npy" else _lines(path)
    if isinstance(found, np.ndarray) and (found.dtype.kind not in "iuU" or found.ndim != 1):
        raise InputError(f"{path}: {_described(found)}; expected one integer or text for each vector")
    if len(found) != rows:
        raise InputError(f"{path}: {len(found)} ids for the {rows} vectors of {of}")
    book = book or Book()
    if isinstance(found, pa.Array) or found.dtype.kind == "U":
        try:
            texts = pa.array(found, pa.string())
        except (UnicodeError, ValueError) as error:  # code points that are no characters
            raise InputError(f"{path}: its ids are no text that can be written as UTF-8 ({error})") from error
        return book.numbers(key, str(path), texts)
    if found.dtype.kind == "u" and len(found) and found.max() > np.iinfo(np.int64).max:
        raise InputError(f"{path}: id {found.max()} is beyond int64")
    return book.numbers(key, str(path), found.astype(np.int64))


def _opened(path: Path) -> np.ndarray:
    if given(path).is_dir():
        raise InputError(f"{path}: a folder, expected a .npy file")
    array = arrays.open_npy(path, Damage(InputError, "write it again"))
    memory.take(str(path), array.nbytes)
    return array


def _copied(array: np.ndarray, kind: np.dtype | None = None) -> np.ndarray:
    """Out of the file. Raises IntegrityError where that was changed meanwhile."""
    found = np.array(array, kind)
    mapped.require_unchanged(array)
    return found


def _lines(path: Path) -> pa.Array:
    memory.require_text(given(path))
    try:
        with mapped.throughout(path):
            lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text; expected one id a line, or a .npy array") from error
    if lines[-1] == "":
        lines.pop()
    return pc.utf8_trim_whitespace(pa.array(lines, pa.string()))


def _described(array: np.ndarray) -> str:
    return f"an array {' x '.join(map(str, array.shape)) or 'of no dimension'} of {array.dtype}"
