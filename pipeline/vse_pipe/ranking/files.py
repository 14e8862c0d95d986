"""Files of vectors and ids: .npy, .parquet, and lines of text. All ids are read as text; ``Book``
tells which are numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts.names import KEYS, TextIds
from vse_pipe.core import arrays, memory, tables
from vse_pipe.core import text as core_text
from vse_pipe.core.errors import InputError, MissingResource, UsageError, damaged

_SHOWN = 3


class Book:
    """Running numbers for text ids, in the order of their first occurrence; equal texts get equal
    numbers in all files of a call.

    The first file decides whether the ids of images, or of captions, are numbers or text. Text
    counts as numbers when every value is one (``text.are_numbers``). The other files must agree."""

    def __init__(self) -> None:
        self._texts = {key: pa.array([], pa.string()) for key in KEYS}
        self._kinds: dict[str, tuple[str, str]] = {}

    def numbers(self, key: str, where: str, ids: pa.Array) -> np.ndarray:
        """The int64 numbers of ids. Raises InputError for text beside numbers, and invalid ids."""
        are_numbers = not self.texts(key) and core_text.are_numbers(ids)
        kind = "numbers" if are_numbers else "text"
        first_kind, first = self._kinds.setdefault(key, (kind, where))
        if kind != first_kind:
            raise InputError(f"{where}: the {key}s are {kind}, those of {first} are {first_kind}; write them alike")
        if are_numbers:
            return ids.cast(pa.int64()).to_numpy()
        joined = pc.unique(pa.concat_arrays([self._texts[key], ids]))
        if wrong := core_text.objection(joined):
            raise InputError(f"{where}: {key} {wrong[1]}")
        self._texts[key] = joined
        return pc.index_in(ids, joined).cast(pa.int64()).to_numpy()

    def texts(self, key: str) -> bool:
        """Are the ids of this key text in the files so far?"""
        return self._kinds.get(key, ("", ""))[0] == "text"

    def label(self, key: str, ids: np.ndarray) -> str:
        """The key and the first three ids as in the files, for a message."""
        names = list(map(str, ids[:_SHOWN]))
        if self.texts(key):
            texts = self._texts[key].take(pa.array(ids[:_SHOWN])).to_pylist()
            names = list(map(core_text.shown_id, texts))
        return f"{key} {', '.join(names)}" + (", ..." if len(ids) > _SHOWN else "")

    def names(self) -> TextIds | None:
        """The texts of the ids; None when all ids are numbers."""
        texts = {key: names for key, names in self._texts.items() if len(names)}
        columns = {key: (np.arange(len(names)), names) for key, names in texts.items()}
        return TextIds.from_columns(**columns) if columns else None


@dataclass(frozen=True)
class Content:
    """vectors: (rows, dim) of floats; ids, owners: text (rows,), None where the file has none;
    owners: the image of each caption; about: the footer."""

    vectors: np.ndarray
    ids: pa.Array | None = None
    owners: pa.Array | None = None
    about: dict[str, str] = field(default_factory=dict)


def read_vectors(path: Path, key: str) -> Content:
    """The vectors in a file. key: image_id or caption_id, the kind of its ids.

    Raises UsageError for another suffix than .npy and .parquet, MissingResource for a missing file,
    InputError for unfit content and IntegrityError for a damaged file."""
    if path.suffix == ".parquet":
        return _parquet(path, key)
    if path.suffix != ".npy":
        raise UsageError(f"{path}: unknown kind of file '{path.suffix}'; known: .npy, .parquet")
    array = _open_npy(existing(path))
    if array.dtype.kind != "f" or array.dtype.itemsize > 8 or array.ndim != 2:
        raise InputError(f"{path}: {_described(array)}; expected rows x values of float16, float32 or float64")
    return Content(array if array.dtype.isnative else np.array(array, array.dtype.newbyteorder("=")))


def existing(path: Path) -> Path:
    """``path``. Raises MissingResource if it does not exist, InputError for a folder."""
    if not path.exists():
        raise MissingResource(f"{path} does not exist")
    if path.is_dir():
        raise InputError(f"{path}: a folder, expected a file")
    return path


def _parquet(path: Path, key: str) -> Content:
    """Columns image_id or caption_id, embedding, and for captions image_id if it is there."""
    optional = ["image_id"] if key == "caption_id" else []
    table = read_parquet(path, [key, "embedding"], optional)
    ids = {name: parquet_ids(path, table, name) for name in table.column_names if name != "embedding"}
    owners = ids.get("image_id") if optional else None
    return Content(parquet_vectors(path, table, key), ids[key], owners, tables.footer(table))


def _open_npy(path: Path) -> np.ndarray:
    """The array, memory-mapped."""
    array = arrays.open_npy(path, InputError)
    memory.reserve(str(path), array.nbytes)
    return array


def _described(array: np.ndarray) -> str:
    return f"an array {' x '.join(map(str, array.shape)) or 'of no dimension'} of {array.dtype}"


def read_ids(path: Path, rows: int, vectors: str) -> pa.Array:
    """The ids (rows,) in a .npy array, or in a text file with one id a line. vectors: the file with
    the vectors, for messages. Raises InputError for other content."""
    ids = _array_ids(path) if existing(path).suffix == ".npy" else _lines(path)
    if len(ids) != rows:
        raise InputError(f"{path}: {len(ids)} ids for the {rows} vectors of {vectors}")
    return ids


def _array_ids(path: Path) -> pa.Array:
    ids = _open_npy(path)
    if ids.dtype.kind not in "iuU" or ids.ndim != 1:
        raise InputError(f"{path}: {_described(ids)}; expected one integer or text for each vector")
    with damaged(path, "its ids are no UTF-8 text", InputError):
        return pa.array(np.array(ids)).cast(pa.string())


def _lines(path: Path) -> pa.Array:
    memory.require_text(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text; expected one id a line, or .npy") from error
    if lines[-1] == "":
        lines.pop()
    return pc.utf8_trim_whitespace(pa.array(lines, pa.string()))


def read_parquet(path: Path, columns: Sequence[str], optional: Sequence[str] = ()) -> pa.Table:
    """Columns of a Parquet file. Raises InputError for a missing column or a file beyond the memory
    limit, IntegrityError for a damaged file."""
    with tables.open_parquet(existing(path)) as file:
        names = file.schema.names
        for name in columns:
            if name not in names:
                present = ", ".join(names)
                raise InputError(f"{path}: column '{name}' is missing; the file has {present}")
        table = file.read([*columns, *(name for name in optional if name in names)])
    memory.reserve(str(path), table.nbytes)
    for name in table.column_names:
        try:
            table[name].validate(full=True)
        except (pa.ArrowInvalid, KeyError) as error:  # damaged text, or a column that is there twice
            reason = " ".join(str(error).split())
            raise InputError(f"{path}: column '{name}' cannot be read: {reason}") from error
    return table


def parquet_ids(path: Path, table: pa.Table, name: str) -> pa.Array:
    """A column of integers or text, as text. Raises InputError for other types and nulls."""
    column = table[name]
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_integer)
    if column.null_count or not any(is_kind(kind) for is_kind in kinds):
        raise InputError(f"{path}: column '{name}' is {kind} with {column.null_count} nulls, expected int64 or text")
    return column.cast(kind).cast(pa.string()).combine_chunks()


def parquet_vectors(path: Path, table: pa.Table, key: str) -> np.ndarray:
    """Column ``embedding``, lists of float16, float32 or float64, as an array (rows, dim). key: the
    id column, for messages. Raises InputError for other types, nulls and other lengths."""
    column, where = table["embedding"], f"{path}: column 'embedding'"
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    is_list = any(is_kind(column.type) for is_kind in kinds)
    if not is_list or not pa.types.is_floating(column.type.value_type):
        raise InputError(f"{where} is {column.type}, expected lists of float16, float32 or float64")
    if not len(table):
        raise InputError(f"{path}: no rows")
    flat = pc.list_flatten(column)
    if nulls := column.null_count + flat.null_count:
        raise InputError(f"{where} has {nulls} nulls")
    lengths = pc.list_value_length(column).to_numpy()
    if len(wrong := np.flatnonzero(lengths != lengths[0])):
        first = f"{key} {table[key][wrong[0]].as_py()} has {lengths[wrong[0]]}"
        raise InputError(f"{where}: {len(wrong)} vectors have not {lengths[0]} values as the first has: {first}")
    return flat.to_numpy().reshape(len(table), -1)
