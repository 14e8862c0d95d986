"""Judgements of which captions are correct for which images, in files or of collections."""

import importlib.util
from pathlib import Path

import numpy as np
import pyarrow as pa

from vse_pipe.core.errors import InputError, missing_package
from vse_pipe.core.files import read_json
from vse_pipe.ranking.files import Book
from vse_pipe.ranking.recall import Relevance, mean_grades


def read_qrels(source: str, book: Book | None = None) -> Relevance:
    """The correct items of each query. source: a collection of ``NAMES``, or a file of
    ``text_tables.read_pairs``.

    The pairs of a file hold in both directions; a pair with a mean relevance above 0 is correct.
    book: of the files with the vectors. Raises InputError for other files, MissingResource when the
    package of a collection is not installed."""
    if source in NAMES:
        return read_eccv(source)
    from vse_pipe.evaluate import text_tables  # pandas takes half a second to import

    path, book = Path(source), book or Book()
    table = text_tables.read_pairs(path, "relevance")
    images, captions = (book.numbers(key, source, pa.array(table[key], pa.string())) for key in text_tables.PAIR)
    table = table if "relevance" in table else table.assign(relevance=1.0)
    relevance = text_tables.numbers(path, table, "relevance")
    correct = mean_grades(images, captions, relevance) > 0
    if not correct.any():
        raise InputError(f"{path}: no pair with a relevance above 0 among {len(correct)} lines")
    return Relevance.both_ways(images[correct], captions[correct])


# Names in --qrels, with the first part of the package's file names.
NAMES = {"eccv_caption": "eccv", "cxc": "cxc"}
_FILES = {"image_to_text": "image_to_caption", "text_to_image": "caption_to_image"}


def read_eccv(name: str) -> Relevance:
    """``eccv_caption``: Chun et al., ECCV Caption, ECCV 2022: 1,261 images and 1,332 captions,
    judged by machines and people; ``cxc``: Parekh et al., Crisscrossed Captions, EACL 2021, its
    positive pairs.

    Ids are COCO's image ids and annotation ids. The files are read without an import of the
    package, which prints warnings. Raises MissingResource when it is not installed."""
    package = importlib.util.find_spec("eccv_caption")
    if package is None or package.origin is None:
        raise missing_package(f"--qrels {name}", "eccv_caption")
    data = Path(package.origin).parent / "data"
    return Relevance({direction: _pairs(data / f"{NAMES[name]}_{file}.json") for direction, file in _FILES.items()})


def _pairs(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """(query, item) ids of a JSON: query ids as text, lists of ids of correct items."""
    correct = read_json(path)
    queries = np.array(list(correct), dtype=np.int64)
    counts = np.fromiter(map(len, correct.values()), np.int64, len(correct))
    items = np.fromiter((item for ids in correct.values() for item in ids), np.int64, int(counts.sum()))
    return np.repeat(queries, counts), items
