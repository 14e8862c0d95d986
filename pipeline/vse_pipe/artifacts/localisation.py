"""data/localize/<run>/: metrics.json and ranks.parquet (a row per mention of a phrase)."""

from pathlib import Path

import pyarrow as pa

from vse_pipe.artifacts import regions
from vse_pipe.core import tables
from vse_pipe.core.files import write_json
from vse_pipe.core.tables import field

METRICS, RANKS = "metrics.json", "ranks.parquet"
FOUND = tuple(f"found_{name}" for name in regions.BOX_COLUMNS)
SCHEMA = tables.schema(
    "localisation 1",
    field("phrase_id", pa.int64(), "unique; the mention"),
    field("caption_id", pa.int64(), "the caption it stands in, of the data set that has the whole pictures"),
    field("image_id", pa.int64(), "the whole picture; mentions that share one go together"),
    field("start", pa.int32(), "its first character in the caption's text, counted from 0"),
    field("text", pa.string(), "as in the caption"),
    field("type", pa.string(), "kind of thing; several are joined by /"),
    field("candidates", pa.int32(), "proposals of the picture"),
    field("correct", pa.int32(), "candidates that overlap the true box as far as the threshold asks"),
    field("rank", pa.float64(), "1 = best, of the first correct candidate; null: none is", nullable=True),
    field("bound", pa.float64(), "the largest IoU that a candidate has with the true box"),
    field("region_id", pa.int64(), "the best candidate; null where the picture has none", nullable=True),
    field("score", pa.float32(), "its similarity to the phrase; larger is closer", nullable=True),
    field("iou", pa.float64(), "its IoU with the true box, 0 to 1", nullable=True),
    *regions.BOX_FIELDS,
    *[field(name, pa.float64(), "of the best candidate; pixels from 0", nullable=True) for name in FOUND],
)


def write(folder: Path, ranks: pa.Table, metrics: dict, source: str) -> None:
    """metrics: finite numbers, strings, null and dictionaries; source: of whole pictures."""
    _RANKS.write(folder, ranks, {"source": source})
    write_json(folder / METRICS, metrics)


def source(ranks: pa.Table) -> Path:
    """The folder of the data set that has the whole pictures."""
    return Path(tables.footer(ranks)["source"])


_RANKS = tables.Artefact(RANKS, SCHEMA, "phrase_id")
read_ranks = _RANKS.read
