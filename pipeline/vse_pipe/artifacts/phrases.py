"""data/prepare/<dataset>/phrases.parquet: phrases of captions with a known box.

Only data sets of the formats entities, shapes (with phrases) and regions have it.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import _boxes
from vse_pipe.core import tables

NAME = "phrases.parquet"
SCHEMA = pa.schema(
    [
        tables.field("phrase_id", pa.int64(), "unique; one mention in one caption"),
        tables.field("caption_id", pa.int64(), "the caption it stands in, of the data set that has the whole pictures"),
        tables.field("image_id", pa.int64(), "the whole picture"),
        tables.field("chain", pa.int64(), "what it speaks of: phrases of one picture and chain name the same thing"),
        tables.field("start", pa.int32(), "its first character in the caption's text, counted from 0"),
        tables.field("text", pa.string(), "as in the caption, never empty"),
        tables.field("type", pa.string(), "kind of thing; several are joined by /"),
        *_boxes.FIELDS,
        tables.field("split", pa.string(), "of its picture"),
        tables.field(
            "region_id",
            pa.int64(),
            "in what ``format: regions`` makes the number of its box, there image_id if captions.parquet shows it; else null",
            nullable=True,
        ),
    ],
    metadata={"artefact": "phrases", "version": "1"},
)


def write(folder: Path, table: pa.Table) -> None:
    tables.write(folder / NAME, table, SCHEMA, {}, problems)


def read(folder: Path) -> pa.Table:
    return tables.read(folder / NAME, SCHEMA, f"vse-pipe prepare --dataset {folder.name}", problems=problems)


def key(table: pa.Table) -> pa.Array:
    """What tells phrases apart: "A man" that begins a caption is "a man" elsewhere."""
    return pc.utf8_lower(table["text"].combine_chunks())


def problems(table: pa.Table) -> list[str]:
    found = tables.repeated(table, "phrase_id") + _boxes.problems(table, "phrase_id")
    empty = table.filter(pc.equal(pc.utf8_length(table["text"]), 0))
    found += [f"phrase_id {value}: the phrase is empty" for value in empty["phrase_id"][:3].to_pylist()]
    return found if table.num_rows else ["no phrases"]
