"""lancedb/, a LanceDB database of two tables, items and queries: id and vector, a row each.

No index is made, so a search with ``distance_type("dot")`` is exact. Files in there have names drawn by LanceDB.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa

from vse_pipe.core.extras import absent
from vse_pipe.tools.export.fold import Folded

try:
    import lancedb
except ImportError as error:
    raise absent("--to lancedb", "lancedb", "lancedb") from error


def write(folder: Path, folded: Folded) -> None:
    database = lancedb.connect(str(folder / "lancedb"))
    for name, side in [("items", folded.items), ("queries", folded.queries)]:
        flat = pa.array(np.ascontiguousarray(side.vectors).reshape(-1))
        vectors = pa.FixedSizeListArray.from_arrays(flat, side.vectors.shape[1])
        database.create_table(name, pa.table({"id": side.shown, "vector": vectors}))
