"""data/prepare/<dataset>/captions.parquet: one row per caption; an image may have any number of them, a data set none at all."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core import tables
from pipeline.core.errors import InputError
from pipeline.project.step import rows_in

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


def read(folder: Path, needed_by: str = "") -> pa.Table:
    """needed_by: what can do nothing without captions. Raises InputError where that is asked and there are none."""
    table = tables.read(folder / NAME, SCHEMA, f"vse-pipe prepare --dataset {folder.name}", problems=problems)
    if needed_by and not table.num_rows:
        raise InputError(
            f"{needed_by}: data set '{folder.name}' has no captions; its pictures can be embedded by a run that was trained on "
            "other data, and searched"
        )
    return table


def absent(folder: Path) -> bool:
    """Is the data set prepared, and without a caption? By the footer alone."""
    return rows_in(folder / NAME) == 0


def problems(table: pa.Table) -> list[str]:
    found = tables.repeated(table, "caption_id")
    empty = table.filter(pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(table["text"])), 0))
    found += [f"caption_id {value}: the caption is empty" for value in empty["caption_id"][:3].to_pylist()]
    return found
