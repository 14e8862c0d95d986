"""Files of vectors and ids: .npy, .parquet, .safetensors, and lines of text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

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

    def numbers(self, key: str, where: str, ids: np.ndarray | pa.Array) -> np.ndarray:
        """The int64 numbers of ids; int64 ids stay as they are. Raises InputError for mixed kinds
        and invalid ids."""
        if isinstance(ids, pa.Array) and not self.texts(key) and core_text.are_numbers(ids):
            ids = ids.cast(pa.int64()).to_numpy()
        kind = "text" if isinstance(ids, pa.Array) else "numbers"
        first_kind, first = self._kinds.setdefault(key, (kind, where))
        if kind != first_kind:
            raise InputError(f"{where}: the {key}s are {kind}, those of {first} are {first_kind}; write them alike")
        if not isinstance(ids, pa.Array):
            return ids
        joined = pc.unique(pa.concat_arrays([self._texts[key], ids.cast(pa.string())]))
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


Ids: TypeAlias = np.ndarray | pa.Array


@dataclass(frozen=True)
class Content:
    """vectors: (rows, dim) of floats; ids, owners: int64 or text (rows,), None where the file has
    none; owners: the image of each caption; about: the footer."""

    vectors: np.ndarray
    ids: Ids | None = None
    owners: Ids | None = None
    about: dict[str, str] = field(default_factory=dict)


def read_vectors(path: Path, key: str) -> Content:
    """The vectors in a file. key: image_id or caption_id, the kind of its ids.

    Raises UsageError for another suffix than those of ``LOADERS``, MissingResource for a missing
    file, InputError for unfit content and IntegrityError for a damaged file."""
    if path.suffix not in LOADERS:
        suffixes = ", ".join(LOADERS)
        raise UsageError(f"{path}: unknown kind of file '{path.suffix}'; known: {suffixes}")
    return LOADERS[path.suffix](existing(path), key)


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


def _npy(path: Path, key: str) -> Content:
    return Content(_matrix(str(path), _open_npy(path)))


def _safetensors(path: Path, key: str) -> Content:
    """The only tensor of the file, or that named embedding, image or caption."""
    import torch
    from safetensors import safe_open

    side = key.removesuffix("_id")
    memory.reserve(str(path), path.stat().st_size)
    with damaged(path, "not a whole file of safetensors"), safe_open(path, framework="pt") as file:
        names = list(file.keys())
        candidates = [name for name in names if name in ("embedding", side) or len(names) == 1]
        if not candidates:
            raise InputError(f"{path}: holds {', '.join(names) or 'no tensor'}; expected one, or embedding or {side}")
        tensor = file.get_tensor(candidates[0])
    array = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return Content(_matrix(f"{path}: tensor '{candidates[0]}'", array))


LOADERS: dict[str, Callable[[Path, str], Content]] = {
    ".parquet": _parquet,
    ".npy": _npy,
    ".safetensors": _safetensors,
}


def _open_npy(path: Path) -> np.ndarray:
    """The array, memory-mapped."""
    array = arrays.open_npy(path, InputError)
    memory.reserve(str(path), array.nbytes)
    return array


def _matrix(where: str, array: np.ndarray) -> np.ndarray:
    """The array (rows, dim) of floats in native byte order. Raises InputError for others."""
    if array.dtype.kind != "f" or array.dtype.itemsize > 8 or array.ndim != 2:
        raise InputError(f"{where}: {_described(array)}; expected rows x values of float16, float32 or float64")
    return array if array.dtype.isnative else np.array(array, array.dtype.newbyteorder("="))


def _described(array: np.ndarray) -> str:
    return f"an array {' x '.join(map(str, array.shape)) or 'of no dimension'} of {array.dtype}"


def read_ids(path: Path, rows: int, vectors: str) -> Ids:
    """int64 or text ids (rows,) from a .npy array, or from a text file with one id a line. vectors:
    the file with the vectors, for messages. Raises InputError for other content."""
    is_text = existing(path).suffix != ".npy"
    ids = _lines(path) if is_text else _array_ids(path, np.array(_open_npy(path)))
    if len(ids) != rows:
        raise InputError(f"{path}: {len(ids)} ids for the {rows} vectors of {vectors}")
    return ids


def _array_ids(path: Path, ids: np.ndarray) -> Ids:
    if ids.dtype.kind not in "iuU" or ids.ndim != 1:
        raise InputError(f"{path}: {_described(ids)}; expected one integer or text for each vector")
    try:
        column = pa.array(ids)
        return column if ids.dtype.kind == "U" else column.cast(pa.int64()).to_numpy()
    except (UnicodeError, ValueError) as error:  # beyond int64, or code points that are no characters
        raise InputError(f"{path}: its ids are neither int64 nor UTF-8 text ({error})") from error


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
        with file.named():
            tables.footer(table)  # checksums cover pages only: a damaged footer is no text
    memory.reserve(str(path), table.nbytes)
    for name in table.column_names:
        try:
            table[name].validate(full=True)
        except (pa.ArrowInvalid, KeyError) as error:  # damaged text, or a column that is there twice
            reason = " ".join(str(error).split())
            raise InputError(f"{path}: column '{name}' cannot be read: {reason}") from error
    return table


def parquet_ids(path: Path, table: pa.Table, name: str) -> Ids:
    """An integer column as int64, or a column of text. Raises InputError for other types, nulls and
    values beyond int64."""
    column = table[name]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    is_text = any(is_kind(column.type) for is_kind in kinds)
    if column.null_count or not (is_text or pa.types.is_integer(column.type)):
        nulls = column.null_count
        raise InputError(f"{path}: column '{name}' is {column.type} with {nulls} nulls, expected int64 or text")
    try:
        column = column.cast(pa.string() if is_text else pa.int64())
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: column '{name}' has values beyond int64 ({error})") from error
    return pa.concat_arrays(column.chunks or [pa.array([], pa.string())]) if is_text else column.to_numpy()


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
