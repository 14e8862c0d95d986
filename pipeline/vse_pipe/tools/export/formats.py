"""The forms of an export: files of vectors, databases, indexes of other libraries, and answers as TREC has them.

Each writes the items and the queries of ``Folded``, with their ids, into an empty folder; what it returns goes into the manifest. Indexes
stand beside queries.npy and queries_ids.npy.
"""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from jaxtyping import Float, UInt64
from pyarrow import csv

from vse_pipe.core import tables
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.core.extras import absent
from vse_pipe.core.files import write_array
from vse_pipe.core.unknown import unknown
from vse_pipe.ranking.engine.scores import strip_height
from vse_pipe.ranking.engine.top import top_k
from vse_pipe.tools.export.fold import Folded, FoldedSide

Write = Callable[[Path, Folded], dict | None]
# What is imported, and the package that it is in.
_LIBRARIES = {
    "faiss": ("faiss", "faiss-cpu"),
    "hnswlib": ("hnswlib", "hnswlib"),
    "lancedb": ("lancedb", "lancedb"),
    "usearch": ("usearch.index", "usearch"),
}
# Items whose share among the answers of an index is measured, on how many queries, and how many at once.
_K, _SAMPLE, _BLOCK = 10, 1000, 64
# Of hnswlib: links of a node, and nodes that are kept in sight while it is built and searched.
_LINKS, _BUILT_WITH, _EF = 16, 200, 100
# Of clip-retrieval: folders, and where that program looks for what to show.
_FOLDERS = {"image_id": "img_emb", "caption_id": "text_emb"}
_SHOWN = {"image_id": "image_path", "caption_id": "caption"}
_TREC = csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
_TAG = "vse-pipe"


def target(name: str) -> Write:
    """Raises UsageError for an unknown name, MissingResource where the package of a target is not installed."""
    if name not in TARGETS:
        raise UsageError(unknown("export target", name, sorted(TARGETS)))
    if name in _LIBRARIES:
        _library(name)
    return TARGETS[name]


def npy(folder: Path, folded: Folded) -> None:
    """items.npy and queries.npy (rows, D + 1) float32, items_ids.npy and queries_ids.npy int64, or Unicode of ids that are text."""
    _write_arrays(folder, "items", folded.items)
    _write_arrays(folder, "queries", folded.queries)


def parquet(folder: Path, folded: Folded) -> None:
    """items.parquet and queries.parquet: id and embedding, a row each."""
    for name, side in [("items", folded.items), ("queries", folded.queries)]:
        vector = pa.list_(pa.field("element", pa.float32(), nullable=False), side.vectors.shape[1])
        columns = [
            tables.field("id", side.shown.type, side.key),
            tables.field("embedding", vector, "search by inner product; the last value is the correction"),
        ]
        schema = pa.schema(columns, metadata={"artefact": f"exported {name}", "version": "1"})
        table = pa.table({"id": side.shown, "embedding": _lists(side, vector)})
        tables.write(folder / f"{name}.parquet", table, schema, {})


def clip_retrieval(folder: Path, folded: Folded) -> None:
    """The folders that ``clip-retrieval index`` reads: img_emb, text_emb, metadata, with one part each.

    metadata_0.parquet has a row for each item, in the order of its vectors: ``image_path`` or ``caption``, where that program
    looks for what to show, holds the id as text; the id itself is beside it. The queries, whose ids are in queries_ids.npy, are
    in the folder of their kind and have no metadata.
    """
    for side in (folded.items, folded.queries):
        name = _FOLDERS[side.key]
        (folder / name).mkdir()
        write_array(folder / name / f"{name}_0.npy", side.vectors)
    write_array(folder / "queries_ids.npy", folded.queries.array)
    key, ids = folded.items.key, folded.items.shown
    columns = [
        tables.field(_SHOWN[key], pa.string(), "the id as text"),
        tables.field(key, ids.type, "as in the embeddings"),
    ]
    table = pa.table({_SHOWN[key]: ids.cast(pa.string()), key: ids})
    tables.write(folder / "metadata" / "metadata_0.parquet", table, pa.schema(columns), {})


def lancedb(folder: Path, folded: Folded) -> None:
    """lancedb/, a LanceDB database of two tables, items and queries: id and vector, a row each.

    No index is made, so a search with ``distance_type("dot")`` is exact. Files in there have names drawn by LanceDB.
    """
    database = _library("lancedb").connect(str(folder / "lancedb"))
    for name, side in [("items", folded.items), ("queries", folded.queries)]:
        vectors = _lists(side, pa.list_(pa.float32(), side.vectors.shape[1]))
        database.create_table(name, pa.table({"id": side.shown, "vector": vectors}))


def faiss(folder: Path, folded: Folded) -> None:
    """items.faiss, an exact inner-product index that answers with ids."""
    library, items = _library("faiss"), folded.items
    index = library.IndexIDMap2(library.IndexFlatIP(items.vectors.shape[1]))
    index.add_with_ids(np.ascontiguousarray(items.vectors), items.ids)
    library.write_index(index, str(folder / "items.faiss"))
    _write_arrays(folder, "queries", folded.queries)


def usearch(folder: Path, folded: Folded) -> dict:
    """items.usearch, an approximate index (HNSW) that answers with ids. Returns its recall."""
    items = folded.items
    index = _library("usearch").Index(ndim=items.vectors.shape[1], metric="ip", dtype="f32")
    # One thread: with several the graph would be another one every time.
    index.add(_labels(items, "usearch"), np.ascontiguousarray(items.vectors), threads=1)
    index.save(str(folder / "items.usearch"))
    _write_arrays(folder, "queries", folded.queries)
    return recall(lambda queries, k: index.search(queries, k, threads=1).keys, folded)


def hnswlib(folder: Path, folded: Folded) -> dict:
    """items.hnsw, an approximate index (HNSW) that answers with ids. Returns ``ef`` and its recall.

    The file does not say how wide to search: set ``ef`` of manifest.json after loading, under which its recall was measured.
    """
    items = folded.items
    index = _library("hnswlib").Index(space="ip", dim=items.vectors.shape[1])
    index.init_index(max_elements=len(items.ids), M=_LINKS, ef_construction=_BUILT_WITH)
    # One thread: with several the graph would be another one every time.
    index.add_items(np.ascontiguousarray(items.vectors), _labels(items, "hnswlib"), num_threads=1)
    index.save_index(str(folder / "items.hnsw"))
    _write_arrays(folder, "queries", folded.queries)
    index.set_ef(_EF)
    return {"ef": _EF} | recall(lambda queries, k: index.knn_query(queries, k, num_threads=1)[0], folded)


def trec(folder: Path, folded: Folded) -> None:
    """run.txt, the best items of each query as TREC has them (``query Q0 item rank score tag``), and qrels.txt where it is known
    which are correct (``query 0 item 1``): what trec_eval, ir-measures and ranx read.

    Equal scores in the order of the items; in programs that go by the scores they are ties.
    """
    _write_lines(folder / "run.txt", _answers(folded))
    if folded.correct is not None:
        queries, items = (
            _trec_ids(side, ids) for side, ids in zip((folded.queries, folded.items), folded.correct, strict=True)
        )
        same = pa.repeat(pa.scalar(0), len(queries)), items, pa.repeat(pa.scalar(1), len(queries))
        qrels = pa.table([queries, *same], ["query", "iteration", "item", "relevance"])
        _write_lines(folder / "qrels.txt", iter([qrels]))


# By name; the command line takes - for _.
TARGETS: dict[str, Write] = {
    one.__name__: one for one in (clip_retrieval, faiss, hnswlib, lancedb, npy, parquet, trec, usearch)
}


def recall(search: Callable[[Float[np.ndarray, "queries wide"], int], np.ndarray], folded: Folded) -> dict:
    """How much of the best 10 an approximate index finds, for the manifest, over at most 1,000 queries evenly taken.

    search: queries and k to (queries, k) ids. An item counts where its inner product is among the k largest, ties included.
    """
    items, queries = folded.items, folded.queries.vectors
    chosen = queries[np.unique(np.linspace(0, len(queries) - 1, _SAMPLE).astype(np.int64))]
    k, order, right = min(_K, len(items.ids)), np.argsort(items.ids), 0
    for start in range(0, len(chosen), _BLOCK):
        block = chosen[start : start + _BLOCK]
        scores, ids = block @ items.vectors.T, search(block, k).astype(np.int64)
        least = np.partition(scores, -k, axis=1)[:, -k, None]
        places = order[np.searchsorted(items.ids, ids, sorter=order).clip(max=len(order) - 1)]
        right += ((np.take_along_axis(scores, places, axis=1) >= least) & (items.ids[places] == ids)).sum()
    return {"recall@10": round(float(right) / (len(chosen) * k), 4), "recall_queries": len(chosen)}


def _library(name: str) -> Any:
    module, package = _LIBRARIES[name]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise absent(f"--to {name}", package, name) from error


def _write_arrays(folder: Path, name: str, side: FoldedSide) -> None:
    write_array(folder / f"{name}.npy", side.vectors)
    write_array(folder / f"{name}_ids.npy", side.array)


def _lists(side: FoldedSide, kind: pa.DataType) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(side.vectors).reshape(-1)), type=kind)


def _labels(side: FoldedSide, to: str) -> UInt64[np.ndarray, " rows"]:
    """The ids, for indexes that know unsigned ones only. Raises InputError for a negative id."""
    if (least := side.ids.min()) < 0:
        raise InputError(
            f"--to {to}: labels are unsigned there, and {side.key} {least} is negative; use npy or parquet"
        )
    return side.ids.astype(np.uint64)


def _answers(folded: Folded) -> Iterator[pa.Table]:
    items, queries = (torch.from_numpy(side.vectors) for side in (folded.items, folded.queries))
    height = strip_height(len(items))
    for start in range(0, len(queries), height):
        values, columns = top_k(queries[start : start + height] @ items.T, folded.depth)
        count, best = values.shape
        table = {
            "query": _trec_ids(folded.queries, np.repeat(folded.queries.ids[start : start + count], best)),
            "iteration": pa.repeat("Q0", count * best),
            "item": _trec_ids(folded.items, folded.items.ids[columns.numpy().ravel()]),
            "rank": np.tile(np.arange(1, best + 1), count),
            "score": values.numpy().ravel(),
            "tag": pa.repeat(_TAG, count * best),
        }
        yield pa.table(table)


def _trec_ids(side: FoldedSide, ids: np.ndarray) -> pa.Array:
    """As the data set has them. Raises InputError for a text with a space, at which lines are split, or a quotation mark."""
    if side.names is None:
        return pa.array(ids)
    order = np.argsort(side.ids)
    texts = side.names.take(pa.array(order[np.searchsorted(side.ids, ids, sorter=order)]))
    if pc.any(wrong := pc.match_substring_regex(texts, r'[\p{Z}"]')).as_py():
        text = texts.filter(wrong)[0].as_py()
        raise InputError(f"--to trec: {side.key} {text!r} holds a space, at which lines are split, or a quotation mark")
    return texts


def _write_lines(path: Path, parts: Iterator[pa.Table]) -> None:
    first = next(parts)
    with csv.CSVWriter(path, first.schema, write_options=_TREC) as file:
        file.write(first)
        for table in parts:
            file.write(table)
