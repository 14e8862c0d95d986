"""What the indexes of other libraries have in common: their labels, the queries beside them, and how often they are right."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt64

from vse_pipe.core.errors import InputError
from vse_pipe.core.files import write_array
from vse_pipe.tools.export.fold import Folded, FoldedSide

_K, _SAMPLE, _BLOCK = 10, 1000, 64


def labels(side: FoldedSide, to: str) -> UInt64[np.ndarray, " rows"]:
    """The ids, for indexes that know unsigned ones only. Raises InputError for a negative id."""
    if (least := side.ids.min()) < 0:
        raise InputError(
            f"--to {to}: labels are unsigned there, and {side.key} {least} is negative; use npy or parquet"
        )
    return side.ids.astype(np.uint64)


def write_queries(folder: Path, folded: Folded) -> None:
    """queries.npy (rows, D + 1) float32 and queries_ids.npy int64, or Unicode of ids that are text."""
    write_array(folder / "queries.npy", folded.queries.vectors)
    write_array(folder / "queries_ids.npy", folded.queries.array)


def recall(search: Callable[[Float[np.ndarray, "queries wide"], int], np.ndarray], folded: Folded) -> dict:
    """How much of the best 10 an approximate index finds, for the manifest, over at most 1,000 queries evenly taken.

    search: queries and k to (queries, k) ids. An item counts where its inner product is among the k largest, ties included.
    """
    items, queries = folded.items, folded.queries.vectors
    chosen = queries[np.unique(np.linspace(0, len(queries) - 1, _SAMPLE).astype(np.int64))]
    k, order, right = min(_K, len(items.ids)), np.argsort(items.ids), 0
    for start in range(0, len(chosen), _BLOCK):
        block = chosen[start : start + _BLOCK]
        scores, found = block @ items.vectors.T, search(block, k).astype(np.int64)
        least = np.partition(scores, -k, axis=1)[:, -k, None]
        places = order[np.searchsorted(items.ids, found, sorter=order).clip(max=len(order) - 1)]
        right += ((np.take_along_axis(scores, places, axis=1) >= least) & (items.ids[places] == found)).sum()
    return {"recall@10": round(float(right) / (len(chosen) * k), 4), "recall_queries": len(chosen)}
