"""items.parquet and queries.parquet: id and embedding, a row each."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from vse_pipe.core import tables
from vse_pipe.tools.export.fold import Folded, FoldedSide


def write(folder: Path, folded: Folded) -> None:
    for name, side in [("items", folded.items), ("queries", folded.queries)]:
        schema = _schema(name, side)
        flat = pa.array(np.ascontiguousarray(side.vectors).reshape(-1))
        vectors = pa.FixedSizeListArray.from_arrays(flat, type=schema.field("embedding").type)
        table = pa.table({"id": side.shown, "embedding": vectors})
        tables.write(folder / f"{name}.parquet", table, schema, {})


def _schema(name: str, side: FoldedSide) -> pa.Schema:
    vector = pa.list_(pa.field("element", pa.float32(), nullable=False), side.vectors.shape[1])
    columns = [
        tables.field("id", side.shown.type, side.key),
        tables.field("embedding", vector, "search by inner product; the last value is the correction"),
    ]
    return pa.schema(columns, metadata={"artefact": f"exported {name}", "version": "1"})
