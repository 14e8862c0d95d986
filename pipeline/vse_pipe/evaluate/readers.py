"""Readers of the files that the user names on the command line."""

import importlib.util
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts.names import KEYS, TextIds
from vse_pipe.core import arrays, memory, tables
from vse_pipe.core import text as core_text
from vse_pipe.core.console import warn
from vse_pipe.core.errors import Damage, InputError, IntegrityError, MissingResource, UsageError, missing_extra
from vse_pipe.core.files import read_json
from vse_pipe.ranking.recall import Relevance, mean_grades


def existing(path: Path) -> Path:
    """``path``. Raises MissingResource if it does not exist, because no command makes it."""
    if not path.exists():
        raise MissingResource(f"{path} does not exist")
    return path


def require_room(out: Path) -> None:
    """Raises UsageError when a file lies in the place of the folder ``out`` or of one of its parents."""
    for path in (out, *out.absolute().parents):
        if path.exists() and not path.is_dir():
            raise UsageError(f"--out: {path} is a file; choose a folder")


_SHOWN = 3


class Book:
    """Running numbers for text ids, in the order of their first occurrence; equal texts get equal numbers in all files
    of a call.

    The first file decides whether the ids of images, or of captions, are numbers or text. Text counts as numbers when
    every value is one (``text.are_numbers``). The other files must agree."""

    def __init__(self) -> None:
        self._texts = {key: pa.array([], pa.string()) for key in KEYS}
        self._kinds: dict[str, tuple[bool, str]] = {}

    def numbers(self, key: str, where: str, ids: np.ndarray | pa.Array) -> np.ndarray:
        """The int64 numbers of ids; int64 ids stay as they are. Raises InputError for mixed kinds and invalid ids."""
        if isinstance(ids, pa.Array) and not self.texts(key) and core_text.are_numbers(ids):
            ids = ids.cast(pa.int64()).to_numpy()
        is_text = isinstance(ids, pa.Array)
        was_text, first = self._kinds.setdefault(key, (is_text, where))
        if was_text != is_text:
            kinds = {True: "text", False: "numbers"}
            raise InputError(
                f"{where}: the {key}s are {kinds[is_text]}, those of {first} are {kinds[was_text]}; write them alike"
            )
        if not isinstance(ids, pa.Array):
            return ids
        new = pc.unique(ids.filter(pc.is_null(pc.index_in(ids, self._texts[key]))))
        if len(new):
            joined = pa.concat_arrays([self._texts[key], new])
            if wrong := core_text.objection(joined):
                raise InputError(f"{where}: {key} {wrong[1]}")
            self._texts[key] = joined
        return pc.index_in(ids, self._texts[key]).cast(pa.int64()).to_numpy()

    def texts(self, key: str) -> bool:
        """Are the ids of this key text in the files so far?"""
        return self._kinds.get(key, (False, ""))[0]

    def first(self, key: str, ids: np.ndarray) -> str:
        """The first three ids as in the files, for a message."""
        if self.texts(key):
            texts: Iterable[str] = (
                core_text.shown_id(text) for text in self._texts[key].take(pa.array(ids[:_SHOWN])).to_pylist()
            )
        else:
            texts = map(str, ids[:_SHOWN])
        return ", ".join(texts) + (", ..." if len(ids) > _SHOWN else "")

    def names(self) -> TextIds | None:
        """The texts of the ids; None when all ids are numbers."""
        texts = {key: found for key, found in self._texts.items() if len(found)}
        return (
            TextIds.from_columns(**{key: (np.arange(len(found)), found) for key, found in texts.items()})
            if texts
            else None
        )


def npy_vectors(path: Path) -> np.ndarray:
    """A float array (rows, dim), memory-mapped unless its byte order is foreign. Raises InputError for other arrays and
    a file of the wrong length."""
    array = _opened(path)
    if array.dtype.kind != "f" or array.dtype.itemsize > 8 or array.ndim != 2:
        raise InputError(f"{path}: {_described(array)}; expected rows x values of float16, float32 or float64")
    if array.dtype.isnative:
        return array
    return _copied(array, array.dtype.newbyteorder("="))


def npy_ids(path: Path, rows: int, vectors: str, key: str = "image_id", book: Book | None = None) -> np.ndarray:
    """int64 ids (rows,) from a .npy array or a text file with one id a line; text gets its numbers in ``book``.
    vectors: the file with the vectors, for messages. key: image_id or caption_id."""
    ids = _copied(_opened(path)) if path.suffix == ".npy" else _lines(path)
    if isinstance(ids, np.ndarray) and (ids.dtype.kind not in "iuU" or ids.ndim != 1):
        raise InputError(f"{path}: {_described(ids)}; expected one integer or text for each vector")
    if len(ids) != rows:
        raise InputError(f"{path}: {len(ids)} ids for the {rows} vectors of {vectors}")
    book = book or Book()
    if isinstance(ids, pa.Array) or ids.dtype.kind == "U":
        try:
            texts = pa.array(ids, pa.string())
        except (UnicodeError, ValueError) as error:  # code points that are no characters
            raise InputError(f"{path}: its ids are no text that can be written as UTF-8 ({error})") from error
        return book.numbers(key, str(path), texts)
    if ids.dtype.kind == "u" and len(ids) and ids.max() > np.iinfo(np.int64).max:
        raise InputError(f"{path}: id {ids.max()} is beyond int64")
    return book.numbers(key, str(path), ids.astype(np.int64))


def _opened(path: Path) -> np.ndarray:
    if existing(path).is_dir():
        raise InputError(f"{path}: a folder, expected a .npy file")
    array = arrays.open_npy(path, Damage(InputError, "write it again"))
    memory.reserve(str(path), array.nbytes)
    return array


def _copied(array: np.ndarray, kind: np.dtype | None = None) -> np.ndarray:
    """A copy in memory."""
    return np.array(array, kind)


def _lines(path: Path) -> pa.Array:
    memory.require_text(existing(path))
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text; expected one id a line, or a .npy array") from error
    if lines[-1] == "":
        lines.pop()
    return pc.utf8_trim_whitespace(pa.array(lines, pa.string()))


def _described(array: np.ndarray) -> str:
    return f"an array {' x '.join(map(str, array.shape)) or 'of no dimension'} of {array.dtype}"


def read_parquet(path: Path, columns: Sequence[str], optional: Sequence[str] = ()) -> pa.Table:
    """Columns of a Parquet file. Raises InputError for a missing column or a file beyond the memory limit,
    IntegrityError for a damaged file."""
    if existing(path).is_dir():
        raise InputError(f"{path}: a folder, expected a Parquet file")
    if not path.stat().st_size:
        raise InputError(f"{path}: the file is empty")
    with tables.open_parquet(path, Damage(IntegrityError, "write it again")) as file:
        names = file.schema.names
        for name in [*columns, *optional]:
            if names.count(name) > 1:
                raise InputError(f"{path}: column '{name}' occurs {names.count(name)} times")
            if name not in names and name in columns:
                raise InputError(f"{path}: column '{name}' is missing; the file has {', '.join(names)}")
        table = file.read([*columns, *(name for name in optional if name in names)])
        with file.named():
            tables.footer(table)  # checksums cover pages only: a damaged footer is no text
    memory.reserve(str(path), table.nbytes)
    for name in table.column_names:
        try:
            table[name].validate(full=True)
        except pa.ArrowInvalid as error:
            raise InputError(f"{path}: column '{name}' cannot be read: {' '.join(str(error).split())}") from error
    return table


def parquet_ids(path: Path, table: pa.Table, name: str, book: Book | None = None) -> np.ndarray:
    """An integer column as int64, or a text column as its numbers in ``book``. Raises InputError for other types, nulls
    and values beyond int64."""
    column, book = table[name], book or Book()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if not text and not pa.types.is_integer(column.type):
        raise InputError(f"{path}: column '{name}' is {column.type}, expected int64 or text")
    if column.null_count:
        raise InputError(f"{path}: column '{name}' has {column.null_count} nulls")
    if text:
        return book.numbers(
            name, str(path), pa.concat_arrays(column.cast(pa.string()).chunks or [pa.array([], pa.string())])
        )
    try:
        return book.numbers(name, str(path), column.cast(pa.int64()).to_numpy())
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: column '{name}' has values beyond int64 ({error})") from error


def parquet_vectors(path: Path, table: pa.Table, key: str) -> np.ndarray:
    """Column ``embedding``, lists of float16, float32 or float64, as an array (rows, dim). key: the id column, for
    messages.

    Raises InputError for other types, nulls and lists of different lengths."""
    column = table["embedding"]
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if not any(is_kind(column.type) for is_kind in kinds) or not pa.types.is_floating(column.type.value_type):
        raise InputError(f"{path}: column 'embedding' is {column.type}, expected lists of float16, float32 or float64")
    if column.null_count:
        raise InputError(f"{path}: column 'embedding' has {column.null_count} nulls")
    if not len(table):
        raise InputError(f"{path}: no rows")
    if not pa.types.is_fixed_size_list(column.type):
        _one_length(path, table, key)
    flat = [chunk.flatten() for chunk in column.chunks]
    nulls = sum(chunk.null_count for chunk in flat)
    if nulls:
        raise InputError(f"{path}: column 'embedding' has {nulls} nulls inside its lists")
    joined = np.concatenate([chunk.to_numpy(zero_copy_only=False) for chunk in flat])
    return joined.reshape(len(table), len(joined) // len(table))


def _one_length(path: Path, table: pa.Table, key: str) -> None:
    lengths = pc.list_value_length(table["embedding"]).to_numpy()
    wrong = np.flatnonzero(lengths != lengths[0])
    if len(wrong):
        row = wrong[0]
        raise InputError(
            f"{path}: {len(wrong)} vectors of another length than the first, which has {lengths[0]} values: {key} {table[key][row].as_py()} has {lengths[row]}"
        )


_COLUMNS = ["caption_id", "image_id", "relevance"]
_TREC = ["caption_id", "iteration", "image_id", "relevance"]
_PAIRS = "caption_id image_id [relevance]"
# The second column of TREC qrels has no meaning there; ours says so that the queries, in the first column, are images.
IMAGE_QUERIES = "image_to_text"
Ids = tuple[()] | tuple[np.ndarray, np.ndarray]
_GRADE = r"^-?[0-9]+(\.[0-9]+)?$"


def read_qrels(source: str, book: Book | None = None, known: Ids = ()) -> Relevance:
    """The correct items of each query. source: a collection of ``NAMES``; or a file, Parquet or text with a header
    ``caption_id image_id [relevance]``, or TREC lines ``caption_id 0 image_id relevance``, or with ``IMAGE_QUERIES``
    for 0 the image first; text is split at white space.

    The pairs of a file hold in both directions; a pair with a mean relevance above 0 is correct. book: of the files with
    the vectors; known: their ids of captions and of images. Raises InputError for other files and for TREC lines that
    seem to have the image first, MissingResource when the package of a collection is not installed."""
    book = book or Book()
    if source in NAMES:
        return read_eccv(source)
    path = Path(source)
    captions, images, relevance = _parquet(path, book) if path.suffix == ".parquet" else _text(path, book, known)
    if np.isnan(relevance).any():
        raise InputError(f"{path}: relevance is no number in {np.isnan(relevance).sum()} rows")
    means = mean_grades(images, captions, relevance)
    warn_of_disagreement(path, means, relevance)
    correct = means > 0
    if not correct.any():
        raise InputError(f"{path}: no pair with a relevance above 0 among {len(correct)} lines")
    return Relevance.both_ways(images[correct], captions[correct])


def warn_of_disagreement(path: Path, means: Iterable[float], relevance: Iterable[float]) -> None:
    """means: of the pair of each row."""
    if differing := (~np.isclose(means, relevance)).sum():  # type: ignore[call-overload]
        warn(f"{path}: {differing} rows differ from others of the same pair; the mean relevance of a pair counts")


def _parquet(path: Path, book: Book) -> tuple[np.ndarray, ...]:
    table = read_parquet(path, _COLUMNS[:2], _COLUMNS[2:])
    pairs = [parquet_ids(path, table, name, book) for name in _COLUMNS[:2]]
    if "relevance" not in table.column_names:
        return *pairs, np.ones(len(table))
    grades = table["relevance"]
    if not (pa.types.is_integer(grades.type) or pa.types.is_floating(grades.type)) or grades.null_count:
        raise InputError(f"{path}: column 'relevance' is {grades.type}, expected numbers without nulls")
    return *pairs, grades.to_numpy()


def _text(path: Path, book: Book, known: Ids) -> tuple[np.ndarray, ...]:
    memory.require_text(existing(path))
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text; expected lines of {_PAIRS}") from error
    lines = [line.split() for line in text.splitlines()]
    headed = bool(lines) and "caption_id" in lines[0]
    names = lines.pop(0) if headed else _TREC
    if not headed and lines and lines[0][1:2] == [IMAGE_QUERIES]:
        names = [_TREC[2], _TREC[1], _TREC[0], _TREC[3]]
    if sorted(names) not in map(sorted, (_COLUMNS, _COLUMNS[:2], _TREC)):
        raise InputError(f"{path}, line 1: columns {' '.join(names)}; expected {_PAIRS}")
    if not lines:
        raise InputError(f"{path}: no judgements; expected lines of {_PAIRS}")
    widths = np.fromiter(map(len, lines), np.int64, len(lines))
    wrong = np.flatnonzero(widths != len(names))
    if len(wrong):
        expected = " ".join(names) if headed else "caption_id 0 image_id relevance, or a header before them"
        raise InputError(f"{path}, line {wrong[0] + 1 + headed}: {widths[wrong[0]]} fields; expected {expected}")
    columns = dict(zip(names, np.array(lines, dtype=str).T, strict=True))
    texts = {name: pa.array(cells, pa.string()) for name, cells in columns.items()}
    for name in _COLUMNS[:2]:
        if not book.texts(name):
            _require(core_text.number_mask(texts[name]), path, texts[name], name, "an integer", headed)
    pairs = [book.numbers(name, str(path), texts[name]) for name in _COLUMNS[:2]]
    if names == _TREC and not headed and known:
        fitting, turned = (np.logical_and(*map(np.isin, sides, known)).sum() for sides in (pairs, pairs[::-1]))
        if turned > fitting:
            header = f"{_TREC[2]} {_TREC[1]} {_TREC[0]} {_TREC[3]}"
            raise InputError(f"{path}: its first ids seem to be of images; if so, write the line `{header}` above them")
    if "relevance" not in columns:
        return *pairs, np.ones(len(lines))
    grades = pc.match_substring_regex(texts["relevance"], _GRADE).to_numpy(zero_copy_only=False).astype(bool)
    _require(grades, path, texts["relevance"], "relevance", "a number", headed)
    return *pairs, columns["relevance"].astype(np.float64)


def _require(fits: np.ndarray, path: Path, cells: pa.Array, name: str, kind: str, headed: bool) -> None:
    """Raises InputError with the line of the first cell that does not fit."""
    wrong = np.flatnonzero(~fits)
    if len(wrong):
        line, cell = wrong[0] + 1 + headed, cells[int(wrong[0])].as_py()[:40]
        raise InputError(f"{path}, line {line}: {name} {cell!r} is not {kind}")


# Names in --qrels, with the first part of the package's file names.
NAMES = {"eccv_caption": "eccv", "cxc": "cxc"}
_FILES = {"image_to_text": "image_to_caption", "text_to_image": "caption_to_image"}


def read_eccv(name: str) -> Relevance:
    """``eccv_caption``: Chun et al., ECCV Caption, ECCV 2022: 1,261 images and 1,332 captions, judged by machines and
    people; ``cxc``: Parekh et al., Crisscrossed Captions, EACL 2021, its positive pairs.

    Ids are COCO's image ids and annotation ids. The files are read without an import of the package, which prints
    warnings. Raises MissingResource when it is not installed."""
    package = importlib.util.find_spec("eccv_caption")
    if package is None or package.origin is None:
        raise missing_extra(f"--qrels {name}", "eccv_caption", "eccv")
    data = Path(package.origin).parent / "data"
    return Relevance({direction: _pairs(data / f"{NAMES[name]}_{file}.json") for direction, file in _FILES.items()})


def _pairs(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """(query, item) ids from a JSON document: keys are query ids as text, values are lists of ids of correct items."""
    correct = read_json(path)
    queries = np.array(list(correct), dtype=np.int64)
    counts = np.fromiter(map(len, correct.values()), np.int64, len(correct))
    items = np.fromiter((item for ids in correct.values() for item in ids), np.int64, int(counts.sum()))
    return np.repeat(queries, counts), items
