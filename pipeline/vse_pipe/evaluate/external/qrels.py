"""Judgements: which caption and image belong together, from a file or from a named collection."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.core import mapped, memory
from vse_pipe.core import text as core_text
from vse_pipe.core.errors import InputError
from vse_pipe.evaluate.external import eccv, parquet
from vse_pipe.evaluate.external.book import Book
from vse_pipe.evaluate.external.given import given
from vse_pipe.ranking.metrics.recall import Relevance

_COLUMNS = ["caption_id", "image_id", "relevance"]
_TREC = ["caption_id", "iteration", "image_id", "relevance"]
_PAIRS = "caption_id image_id [relevance]"
_GRADE = r"^-?[0-9]+(\.[0-9]+)?$"


def read(source: str, book: Book | None = None) -> Relevance:
    """source: a collection of ``eccv.NAMES``, or a file: Parquet or text with a header ``caption_id image_id [relevance]``,
    or TREC lines ``caption_id 0 image_id relevance``; text is split at white space.

    The pairs of a file hold in both directions, any number of each; relevance above 0 is correct. book: of the files with
    the vectors, which say whether ids are text. Raises InputError for a file that is not one of these, MissingResource for a
    collection whose package is not installed.
    """
    book = book or Book()
    if source in eccv.NAMES:
        return eccv.read(source)
    path = Path(source)
    captions, images, relevance = (_parquet if path.suffix == ".parquet" else _text)(path, book)
    if np.isnan(relevance).any():
        raise InputError(f"{path}: relevance is no number in {np.isnan(relevance).sum()} rows")
    correct = relevance > 0
    if not correct.any():
        raise InputError(f"{path}: no pair with a relevance above 0 among {len(correct)} lines")
    return Relevance.both_ways(images[correct], captions[correct])


def _parquet(path: Path, book: Book) -> tuple[np.ndarray, ...]:
    table = parquet.read(path, _COLUMNS[:2], _COLUMNS[2:])
    pairs = [parquet.ids(path, table, name, book) for name in _COLUMNS[:2]]
    if "relevance" not in table.column_names:
        return *pairs, np.ones(len(table))
    grades = table["relevance"]
    if not (pa.types.is_integer(grades.type) or pa.types.is_floating(grades.type)) or grades.null_count:
        raise InputError(f"{path}: column 'relevance' is {grades.type}, expected numbers without nulls")
    return *pairs, grades.to_numpy()


def _text(path: Path, book: Book) -> tuple[np.ndarray, ...]:
    memory.require_text(given(path))
    try:
        with mapped.throughout(path):
            text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text; expected lines of {_PAIRS}") from error
    lines = [line.split() for line in text.splitlines()]
    headed = bool(lines) and "caption_id" in lines[0]
    names = lines.pop(0) if headed else _TREC
    if names not in (_COLUMNS, _COLUMNS[:2], _TREC):
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
