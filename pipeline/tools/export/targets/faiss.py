"""items.faiss, an exact inner-product index that answers with ids; beside it queries.npy and queries_ids.npy. Ids that are text are
in items_ids.npy, and the index answers with its rows."""

from pathlib import Path

import numpy as np

from pipeline.core.errors import MissingResource
from pipeline.core.files import write_array
from pipeline.tools.export.fold import Folded

try:
    import faiss
except ImportError as error:
    raise MissingResource(
        "--to faiss needs the package faiss-cpu, which is not installed: pip install 'vse-pipe[faiss]'"
    ) from error


def write(folder: Path, folded: Folded) -> None:
    items, queries = folded.items, folded.queries
    index = faiss.IndexIDMap2(faiss.IndexFlatIP(items.vectors.shape[1]))
    ids = items.ids if items.names is None else np.arange(len(items.ids))
    index.add_with_ids(np.ascontiguousarray(items.vectors), ids)
    if items.names is not None:
        write_array(folder / "items_ids.npy", items.array)
    faiss.write_index(index, str(folder / "items.faiss"))
    write_array(folder / "queries.npy", queries.vectors)
    write_array(folder / "queries_ids.npy", queries.array)
