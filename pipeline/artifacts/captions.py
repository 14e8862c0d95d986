"""data/prepare/<dataset>/captions.parquet: one row per caption; an image may have any number of them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core import tables

NAME = "captions.parquet"
SCHEMA = pa.schema(
    [
        tables.field("caption_id", pa.int64(), "unique"),
        tables.field("image_id", pa.int64(), "the image it describes; a row of images.parquet"),
        tables.field("text", pa.string(), "as in the source, never empty"),
        tables.field("split", pa.string(), "the split of its image"),
    ],
    metadata={"artefact": "captions", "version": "1"},
)


def write(folder: Path, table: pa.Table) -> None:
    tables.write(folder / NAME, table, SCHEMA, {}, problems)


def read(folder: Path) -> pa.Table:
    return tables.read(folder / NAME, SCHEMA, f"vse-pipe prepare --dataset {folder.name}", problems=problems)


def problems(table: pa.Table) -> list[str]:
    found = tables.repeated(table, "caption_id")
    empty = table.filter(pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(table["text"])), 0))
    found += [f"caption_id {value}: the caption is empty" for value in empty["caption_id"][:3].to_pylist()]
    if table.num_rows == 0:
        found.append("no captions")
    return found
