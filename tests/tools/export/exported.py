"""What an export holds, searched through plainly or by the library of its format."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from vse_pipe.artifacts import evaluation

# float32 sums of unit vectors differ by less.
_APART = 2e-6
DIRECTIONS = ("text_to_image", "image_to_text")
# Types of its wrappers have no module, of which Python 3.12 complains at import.
FAISS = pytest.param("faiss", marks=pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning"))
TO = ["parquet", "npy", "clip-retrieval", FAISS]


def tops(folder, direction: str) -> dict[int, list[int]]:
    """By query the ids of its best 10 items, as the evaluation has them."""
    ranks = evaluation.read_ranks(folder).to_pandas()
    mine = ranks[ranks.direction == direction]
    return {query: top.tolist() for query, top in zip(mine.query_id.tolist(), mine.top, strict=True)}


def searched(queries, query_ids, items, item_ids) -> dict[int, list[int]]:
    """Plain inner-product search over float32 vectors. Queries with a near tie among the best 11 are left out: which of
    the two comes first is a matter of the order of summation."""
    scores = queries.astype(np.float64) @ items.T.astype(np.float64)
    order = np.argsort(-scores, axis=1)[:, :11]
    steady = np.diff(-np.take_along_axis(scores, order, axis=1)).min(axis=1) > _APART
    assert steady.mean() > 0.9
    best = item_ids[order[:, :10]]
    return {query: row.tolist() for query, row in zip(query_ids[steady].tolist(), best[steady], strict=True)}


def same(found: dict[int, list[int]], wanted: dict[int, list[int]]) -> bool:
    return bool(found) and found == {query: wanted[query] for query in found}


def reopened(out) -> dict[int, list[int]]:
    """What FAISS finds in its index, of the queries that ``searched`` finds steady in the vectors it holds."""
    import faiss

    queries, ids = np.load(out / "queries.npy"), np.load(out / "queries_ids.npy")
    index = faiss.read_index(str(out / "items.faiss"))
    items = index.index.reconstruct_n(0, index.ntotal), faiss.vector_to_array(index.id_map)
    best = dict(zip(ids.tolist(), index.search(queries, 10)[1].tolist(), strict=True))
    return {query: best[query] for query in searched(queries, ids, *items)}


def found(out, to: str, direction: str) -> dict[int, list[int]]:
    if to == "parquet":
        read = [pq.read_table(out / f"{name}.parquet") for name in ("queries", "items")]
        return searched(
            *(part for table in read for part in (np.stack(table["embedding"].to_numpy()), table["id"].to_numpy()))
        )
    if to == "npy":
        return searched(*(np.load(out / f"{name}.npy") for name in ("queries", "queries_ids", "items", "items_ids")))
    if to == "faiss":
        return reopened(out)
    parts = {
        "img_emb": np.load(out / "img_emb" / "img_emb_0.npy"),
        "text_emb": np.load(out / "text_emb" / "text_emb_0.npy"),
    }
    shown = pq.read_table(out / "metadata" / "metadata_0.parquet")
    of_items, of_queries, key, text = (
        ("img_emb", "text_emb", "image_id", "image_path")
        if direction == "text_to_image"
        else ("text_emb", "img_emb", "caption_id", "caption")
    )
    assert shown[text].to_pylist() == [str(value) for value in shown[key].to_pylist()]
    ids = np.load(out / "queries_ids.npy")
    return searched(parts[of_queries], ids, parts[of_items], shown[key].to_numpy())
