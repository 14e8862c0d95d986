"""data/prepare/<dataset>/phrases.parquet: phrases of captions with a known box.

Only data sets of the formats entities, shapes (with phrases) and regions have it.

data/prepare/<dataset>/regions.parquet: the box of each row of images.parquet.

Only data sets of ``format: regions`` have it. Boxes belong to phrases of another data set, or are
proposed.
"""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.core import tables
from vse_pipe.core.tables import field

BOX_COLUMNS = ("x1", "y1", "x2", "y2")
_ABOUT = ("left", "top", "right, the pixel itself included", "bottom, the pixel itself included")
BOX_FIELDS = [
    field(name, pa.float64(), f"{about}; pixels from 0") for name, about in zip(BOX_COLUMNS, _ABOUT, strict=True)
]
_SHOWN = 3


def boxes(table: pa.Table) -> np.ndarray:
    """(rows, 4) float64: x1, y1, x2, y2."""
    return np.stack([table[name].to_numpy() for name in BOX_COLUMNS], axis=1)


def box_problems(table: pa.Table, key: str) -> list[str]:
    """Problems of rows without a valid box. key: column that names the row."""
    edges = boxes(table)
    fine = np.isfinite(edges).all(1) & (edges[:, :2] >= 0).all(1) & (edges[:, 2:] >= edges[:, :2]).all(1)
    wrong = table.filter(pa.array(~fine)).slice(0, _SHOWN).select([key, *BOX_COLUMNS]).to_pylist()
    return [f"{key} {row[key]}: no box: {', '.join(str(row[name]) for name in BOX_COLUMNS)}" for row in wrong]


PHRASES = "phrases.parquet"
PHRASES_SCHEMA = tables.schema(
    "phrases 1",
    field("phrase_id", pa.int64(), "unique; one mention in one caption"),
    field("caption_id", pa.int64(), "the caption it stands in, of the data set that has the whole pictures"),
    field("image_id", pa.int64(), "the whole picture"),
    field("chain", pa.int64(), "what it speaks of: phrases of one picture and chain name the same thing"),
    field("start", pa.int32(), "its first character in the caption's text, counted from 0"),
    field("text", pa.string(), "as in the caption, never empty"),
    field("type", pa.string(), "kind of thing; several are joined by /"),
    *BOX_FIELDS,
    field("split", pa.string(), "of its picture"),
    field(
        "region_id",
        pa.int64(),
        "in what ``format: regions`` makes the number of its box, there image_id if captions.parquet shows it; else null",
        nullable=True,
    ),
)


def phrase_key(table: pa.Table) -> pa.Array:
    """The text of phrases in lower case: "A man" at the start of a caption is "a man" elsewhere."""
    return pc.utf8_lower(table["text"].combine_chunks())


_PHRASES = tables.Artefact(PHRASES, PHRASES_SCHEMA, "phrase_id", partial(box_problems, key="phrase_id"))
write_phrases, read_phrases = _PHRASES.write, _PHRASES.read


NAME = "regions.parquet"
SCHEMA = tables.schema(
    "regions 1",
    field("image_id", pa.int64(), "unique; the rows of images.parquet, in its order"),
    field("source_id", pa.int64(), "image_id of the whole picture, in the data set that has it"),
    *BOX_FIELDS,
    field("proposed", pa.bool_(), "a proposal; false: the box of a phrase"),
    field("score", pa.float64(), "of a proposal, as its method gives it; 0 for the box of a phrase"),
    field("split", pa.string(), "of its picture: train, val or test"),
)


def write(
    folder: Path,
    table: pa.Table,
    source: str,
    recall: dict[str, dict] | None = None,
) -> None:
    """source: folder of the data set with the pictures; recall: as in ``recall``."""
    footer = {"source": source, "recall": json.dumps(recall or {}, sort_keys=True)}
    _REGIONS.write(folder, table, footer)


def source(table: pa.Table) -> Path:
    """The folder of the data set with the pictures."""
    return Path(tables.footer(table)["source"])


def recall(table: pa.Table) -> dict[str, dict]:
    """By split with proposals ``{"mentions", "proposals", "recall"}``: mentions of phrases,
    proposals of their pictures, and the share of mentions with a proposal of IoU 0.5 or more, the
    bound of R@K for ranked proposals."""
    return json.loads(tables.footer(table).get("recall", "{}"))


_REGIONS = tables.Artefact(NAME, SCHEMA, "image_id", partial(box_problems, key="image_id"))
read = _REGIONS.read
