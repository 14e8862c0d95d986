"""items.hnsw, an approximate index (HNSW) that answers with ids; beside it queries.npy and queries_ids.npy.

The file does not say how wide to search: set ``ef`` of manifest.json after loading, under which its recall was measured.
"""

from pathlib import Path

import numpy as np

from vse_pipe.core.extras import absent
from vse_pipe.tools.export import indexed
from vse_pipe.tools.export.fold import Folded

try:
    import hnswlib
except ImportError as error:
    raise absent("--to hnswlib", "hnswlib", "hnswlib") from error

_LINKS, _BUILT_WITH, _EF = 16, 200, 100


def write(folder: Path, folded: Folded) -> dict:
    """Returns ``ef`` and the index's recall under it, for the manifest."""
    items = folded.items
    index = hnswlib.Index(space="ip", dim=items.vectors.shape[1])
    index.init_index(max_elements=len(items.ids), M=_LINKS, ef_construction=_BUILT_WITH)
    # One thread: with several the graph would be another one every time.
    index.add_items(np.ascontiguousarray(items.vectors), indexed.labels(items, "hnswlib"), num_threads=1)
    index.save_index(str(folder / "items.hnsw"))
    indexed.write_queries(folder, folded)
    index.set_ef(_EF)
    return {"ef": _EF} | indexed.recall(lambda queries, k: index.knn_query(queries, k, num_threads=1)[0], folded)
