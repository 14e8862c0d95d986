"""The folders that ``clip-retrieval index`` reads: img_emb, text_emb, metadata, with one part each.

metadata_0.parquet has a row for each item, in the order of its vectors: ``image_path`` or ``caption``, where that program
looks for what to show, holds the id as text; the id itself is beside it. The queries, whose ids are in queries_ids.npy, are
in the folder of their kind and have no metadata.
"""

from pathlib import Path

import pyarrow as pa

from vse_pipe.core import tables
from vse_pipe.core.files import write_array
from vse_pipe.tools.export.fold import Folded

_FOLDERS = {"image_id": "img_emb", "caption_id": "text_emb"}
_SHOWN = {"image_id": "image_path", "caption_id": "caption"}


def write(folder: Path, folded: Folded) -> None:
    for side in (folded.items, folded.queries):
        name = _FOLDERS[side.key]
        (folder / name).mkdir()
        write_array(folder / name / f"{name}_0.npy", side.vectors)
    write_array(folder / "queries_ids.npy", folded.queries.array)
    key, ids = folded.items.key, folded.items.shown
    schema = pa.schema(
        [
            tables.field(_SHOWN[key], pa.string(), "the id as text"),
            tables.field(key, ids.type, "as in the embeddings"),
        ]
    )
    table = pa.table({_SHOWN[key]: ids.cast(pa.string()), key: ids})
    tables.write(folder / "metadata" / "metadata_0.parquet", table, schema, {})
