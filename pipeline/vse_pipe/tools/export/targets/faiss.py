"""items.faiss, an exact inner-product index that answers with ids; beside it queries.npy and queries_ids.npy."""

from pathlib import Path

import numpy as np

from vse_pipe.core.extras import absent
from vse_pipe.core.files import write_array
from vse_pipe.tools.export.fold import Folded

try:
    import faiss
except ImportError as error:
    raise absent("--to faiss", "faiss-cpu", "faiss") from error


def write(folder: Path, folded: Folded) -> None:
    items = folded.items
    index = faiss.IndexIDMap2(faiss.IndexFlatIP(items.vectors.shape[1]))
    index.add_with_ids(np.ascontiguousarray(items.vectors), items.ids)
    faiss.write_index(index, str(folder / "items.faiss"))
    write_array(folder / "queries.npy", folded.queries.vectors)
    write_array(folder / "queries_ids.npy", folded.queries.array)
