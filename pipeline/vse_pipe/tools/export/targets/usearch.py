"""items.usearch, an approximate index (HNSW) that answers with ids; beside it queries.npy and queries_ids.npy."""

from pathlib import Path

import numpy as np

from vse_pipe.core.extras import absent
from vse_pipe.tools.export import indexed
from vse_pipe.tools.export.fold import Folded

try:
    from usearch.index import Index
except ImportError as error:
    raise absent("--to usearch", "usearch", "usearch") from error


def write(folder: Path, folded: Folded) -> dict:
    """Returns the index's recall, for the manifest."""
    items = folded.items
    index = Index(ndim=items.vectors.shape[1], metric="ip", dtype="f32")
    # One thread: with several the graph would be another one every time.
    index.add(indexed.labels(items, "usearch"), np.ascontiguousarray(items.vectors), threads=1)
    index.save(str(folder / "items.usearch"))
    indexed.write_queries(folder, folded)
    return indexed.recall(lambda queries, k: index.search(queries, k, threads=1).keys, folded)
