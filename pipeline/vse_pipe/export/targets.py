"""Forms of an export: files of vectors, an index of faiss, and answers in TREC form.

Each writes the items and queries of ``Folded``, with their ids, into an empty folder.
"""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from jaxtyping import Float32, Int64
from numpy import ndarray
from pyarrow import csv

from vse_pipe.artifacts import images
from vse_pipe.core import tables
from vse_pipe.core.errors import InputError, UsageError, missing_package, unknown
from vse_pipe.evaluate.text_tables import IMAGE_QUERIES
from vse_pipe.ranking.scores import strip_height, top_k

# Answers of a query in TREC form.
_DEPTH = 100
Dataset = tuple[pa.Table, pa.Table]


@dataclass(frozen=True)
class FoldedSide:
    """key: kind of ``ids``, image_id or caption_id; vectors: the last dimension is the correction;
    names: text ids, if the data set has them."""

    key: str
    ids: Int64[ndarray, " rows"]
    vectors: Float32[ndarray, "rows wide"]
    names: pa.Array | None = None

    @property
    def labels(self) -> pa.Array:
        """The ids of the data set, int64 or text."""
        return pa.array(self.ids) if self.names is None else self.names


@dataclass(frozen=True)
class Folded:
    """Queries and items of one direction, to be compared by inner products.

    correct: parallel rows of queries and items that belong together, none if unknown; dataset: its
    tables of images and captions, for ``atlas``."""

    direction: str
    items: FoldedSide
    queries: FoldedSide
    correct: tuple[Int64[ndarray, " pairs"], Int64[ndarray, " pairs"]]
    dataset: Dataset | None = None


Write = Callable[[Path, Folded], None]
_TREC = csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")


def target(name: str) -> Write:
    """The function that writes the format. Raises UsageError, and MissingResource for faiss."""
    if name not in TARGETS:
        raise UsageError(unknown("export target", name, sorted(TARGETS)))
    if name == "faiss":
        _faiss()
    return TARGETS[name]


def npy(folder: Path, folded: Folded) -> None:
    """items.npy and queries.npy (rows, D + 1) float32; items_ids.npy and queries_ids.npy int64, or
    Unicode for text ids."""
    _write_arrays(folder, "items", folded.items)
    _write_arrays(folder, "queries", folded.queries)


def parquet(folder: Path, folded: Folded) -> None:
    """items.parquet and queries.parquet with the columns id and embedding."""
    for name, side in [("items", folded.items), ("queries", folded.queries)]:
        table = pa.table({"id": side.labels, "embedding": _lists(side.vectors)})
        tables.write(folder / f"{name}.parquet", table, table.schema, {})


def faiss(folder: Path, folded: Folded) -> None:
    """items.faiss, an exact inner-product index that answers with ids."""
    library, items = _faiss(), folded.items
    index = library.IndexIDMap2(library.IndexFlatIP(items.vectors.shape[1]))
    index.add_with_ids(np.ascontiguousarray(items.vectors), items.ids)
    library.write_index(index, str(folder / "items.faiss"))
    _write_arrays(folder, "queries", folded.queries)


def trec(folder: Path, folded: Folded) -> None:
    """run.txt, the best items of each query in TREC form (``query Q0 item rank score tag``), and
    qrels.txt (``query 0 item 1``, where queries are images with ``IMAGE_QUERIES`` for 0) if the
    correct items are known. trec_eval, ir-measures and ranx read both.

    Items with equal scores stand in their own order; programs that sort by score see ties.
    """
    queries, items = _words(folded.queries), _words(folded.items)
    _write_lines(folder / "run.txt", _answers(folded, queries, items))
    if len(folded.correct[0]):
        columns = {
            "query": queries.take(folded.correct[0]),
            "iteration": pa.repeat(IMAGE_QUERIES if folded.queries.key == "image_id" else "0", len(folded.correct[0])),
            "item": items.take(folded.correct[1]),
            "relevance": pa.repeat(pa.scalar(1), len(folded.correct[0])),
        }
        _write_lines(folder / "qrels.txt", iter([pa.table(columns)]))


def atlas(folder: Path, folded: Folded) -> None:
    """atlas.parquet, as embedding-atlas and FiftyOne read it: a row for each image and caption,
    with ``id``, ``kind``, ``path`` (of a caption: that of its image), ``caption`` (of an image: its
    first), ``split`` and ``vector``, which has no correction."""
    if folded.dataset is None:
        raise UsageError("--to atlas shows pictures and captions of a data set; give --run, not files")
    pictures, texts = folded.dataset
    parts = []
    for side in (folded.items, folded.queries):
        owners, ids = pa.array(side.ids), texts[side.key]
        if side.key == "caption_id":
            owners = texts["image_id"].take(pc.index_in(owners, value_set=ids))
        rows = pictures.take(pc.index_in(owners, value_set=pictures["image_id"]))
        columns = {
            "id": side.labels.cast(pa.string()),
            "kind": pa.repeat(side.key.removesuffix("_id"), len(side.ids)),
            "path": pc.binary_join_element_wise(str(images.root(pictures).absolute()), rows["file"], "/"),
            "caption": texts["text"].take(pc.index_in(pa.array(side.ids), value_set=ids)),
            "split": rows["split"],
            "vector": _lists(side.vectors[:, :-1]),
        }
        parts.append(pa.table(columns))
    table = pa.concat_tables(parts)
    tables.write(folder / "atlas.parquet", table, table.schema, {})


# Functions by name.
TARGETS: dict[str, Write] = {write.__name__: write for write in (atlas, faiss, npy, parquet, trec)}


def _lists(vectors: np.ndarray) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(np.ascontiguousarray(vectors).reshape(-1), vectors.shape[1])


def _faiss() -> ModuleType:
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise missing_package("--to faiss", "faiss-cpu") from error


def _write_arrays(folder: Path, name: str, side: FoldedSide) -> None:
    """Text ids become fixed-width Unicode, which needs no pickle."""
    np.save(folder / f"{name}.npy", side.vectors, allow_pickle=False)
    labels = side.ids if side.names is None else np.array(side.names.to_pylist(), dtype=str)
    np.save(folder / f"{name}_ids.npy", labels, allow_pickle=False)


def _answers(folded: Folded, queries: pa.Array, items: pa.Array) -> Iterator[pa.Table]:
    sides = torch.from_numpy(folded.queries.vectors), torch.from_numpy(folded.items.vectors)
    height = strip_height(len(items))
    for start in range(0, len(queries), height):
        values, columns = top_k(sides[0][start : start + height] @ sides[1].T, _DEPTH)
        count, best = values.shape
        table = {
            "query": queries.take(np.repeat(np.arange(start, start + count), best)),
            "iteration": pa.repeat("Q0", count * best),
            "item": items.take(columns.numpy().ravel()),
            "rank": np.tile(np.arange(1, best + 1), count),
            "score": values.numpy().ravel(),
            "tag": pa.repeat("vse-pipe", count * best),
        }
        yield pa.table(table)


def _words(side: FoldedSide) -> pa.Array:
    """The labels. Raises InputError for a text with a space, which separates columns, or a mark."""
    texts = side.labels.cast(pa.string())
    if pc.any(wrong := pc.match_substring_regex(texts, r'[\p{Z}"]')).as_py():
        text = texts.filter(wrong)[0].as_py()
        raise InputError(f"--to trec: {side.key} {text!r} holds a space, at which lines are split, or a mark")
    return texts


def _write_lines(path: Path, parts: Iterator[pa.Table]) -> None:
    first = next(parts)
    with csv.CSVWriter(path, first.schema, write_options=_TREC) as file:
        file.write(first)
        for table in parts:
            file.write(table)
