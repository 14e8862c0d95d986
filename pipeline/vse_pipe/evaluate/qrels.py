"""Judgements of which captions are correct for which images, in files or of collections."""

import importlib.util
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.core import memory
from vse_pipe.core import text as core_text
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError, missing_extra
from vse_pipe.core.files import read_json
from vse_pipe.ranking.files import Book, existing, parquet_ids, read_parquet
from vse_pipe.ranking.recall import Relevance, mean_grades

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
    pairs = [book.numbers(name, str(path), parquet_ids(path, table, name)) for name in _COLUMNS[:2]]
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
