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
    tables.problems_or_pass(folder / NAME, problems(table))
    tables.write(folder / NAME, table, SCHEMA, {})


def read(folder: Path) -> pa.Table:
    table = tables.read(folder / NAME, SCHEMA, f"vse-pipe prepare --dataset {folder.name}")
    tables.problems_or_pass(folder / NAME, problems(table))
    return table


def problems(table: pa.Table) -> list[str]:
    found = [f"caption_id {value} occurs more than once" for value in tables.duplicates(table["caption_id"])]
    empty = table.filter(pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(table["text"])), 0))
    found += [f"caption_id {value}: the caption is empty" for value in empty["caption_id"][:3].to_pylist()]
    if table.num_rows == 0:
        found.append("no captions")
    return found
