"""data/audit/datasets/<dataset>/<noise or prepared>/: doubts.parquet (a row per pair), findings.csv
(``artifacts.decisions``) and metrics.json.

data/audit/<run>/: pairs.parquet (a row per training pair), metrics.json, histogram.csv, and
costs.csv if the scheme recorded costs."""

from pathlib import Path

import pandas as pd
import pyarrow as pa

from vse_pipe.artifacts import decisions
from vse_pipe.core import tables
from vse_pipe.core.files import write_csv, write_json
from vse_pipe.core.tables import field

PAIRS, METRICS, HISTOGRAM, COSTS = "pairs.parquet", "metrics.json", "histogram.csv", "costs.csv"
COSTS_COLUMNS = ("epoch", "by", "low", "high", "matched", "mismatched")
SCHEMA = tables.schema(
    "audit 1",
    field("caption_id", pa.int64(), "unique"),
    field("image_id", pa.int64(), "the image it is shown with"),
    field("loss", pa.float64(), "of the pair under the trained model; small where it fits"),
    field("probability", pa.float64(), "of being mismatched, 0 to 1, from the beta mixture"),
    field("score", pa.float32(), "similarity of the pair; larger is closer"),
    field(
        "rematch_caption_id",
        pa.int64(),
        "the caption that suits the image best among those shown with other images; null where there is none",
        nullable=True,
    ),
    field("rematch_caption_score", pa.float32(), "similarity of the two", nullable=True),
    field(
        "rematch_image_id",
        pa.int64(),
        "the image, other than the one shown, that suits the caption best; null where there is none",
        nullable=True,
    ),
    field("rematch_image_score", pa.float32(), "similarity of the two", nullable=True),
    field("mismatched", pa.bool_(), "the injected truth; null where that is unknown", nullable=True),
)

DOUBTS = "doubts.parquet"
DOUBTS_SCHEMA = tables.schema(
    "doubts 1",
    field("caption_id", pa.int64(), "unique"),
    field("image_id", pa.int64(), "the image it is shown with"),
    field("probability", pa.float64(), "of being mismatched, 0 to 1"),
    field("odds", pa.float64(), "log-odds of being a simulated mismatch; pairs are ranked by it"),
    field("fit", pa.float64(), "of the pair to the images, in standard deviations above chance"),
    field("mismatched", pa.bool_(), "the injected truth; null where that is unknown", nullable=True),
)


def is_told(metrics: dict) -> bool:
    """Whether the audit tells a number: its interval spans at most half of the pairs."""
    low, high = metrics["interval"] or (0, 0)
    return 2 * (high - low) <= metrics["pairs"]


def write_doubts(folder: Path, doubts: pa.Table, findings: pd.DataFrame, metrics: dict) -> None:
    tables.write(folder / DOUBTS, doubts, DOUBTS_SCHEMA, {})
    decisions.write(folder / decisions.FINDINGS, findings)
    write_json(folder / METRICS, metrics)


def write(folder: Path, pairs: pa.Table, metrics: dict, histogram: pd.DataFrame, costs: pd.DataFrame | None) -> None:
    """metrics: finite numbers, strings, null and nested lists and dictionaries only."""
    tables.write(folder / PAIRS, pairs, SCHEMA, {})
    write_csv(folder / HISTOGRAM, histogram)
    if costs is not None:
        write_csv(folder / COSTS, costs)
    write_json(folder / METRICS, metrics)


read_pairs = tables.Artefact(PAIRS, SCHEMA).read
read_doubts = tables.Artefact(DOUBTS, DOUBTS_SCHEMA).read
