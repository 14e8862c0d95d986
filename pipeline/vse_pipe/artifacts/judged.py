"""data/evaluate/<run>/<inference>/: judged.parquet, a row for each query with a correct item by ``evaluate.judgements``, and
plausible.parquet, a row for each query whose image has ``evaluate.labels``."""

from pathlib import Path

import pyarrow as pa

from vse_pipe.artifacts.evaluation import JUDGED, KS, MEASURES, PLAUSIBLE, named, with_further
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core import tables

_QUERY = [
    tables.field("direction", pa.string(), "image_to_text or text_to_image"),
    tables.field("fold", pa.int32(), "0 under protocol full"),
    tables.field("query_id", pa.int64(), "image_id or caption_id"),
]
JUDGED_SCHEMA = pa.schema(
    [
        *_QUERY,
        tables.field("correct", pa.int32(), "items whose grade says that they are correct, 1 at least"),
        tables.field("rank", pa.float64(), "1 = best, of the best of them"),
        *[tables.field(f"hit_{k}", pa.bool_(), f"one of them among the best {k}") for k in KS],
        *[tables.field(name, pa.float64(), about.partition(";")[0]) for name, about in MEASURES.items()],
        tables.field("graded_ndcg_10", pa.float64(), "as ndcg_10, each item by its grade"),
    ],
    metadata={"artefact": "judged", "version": "1"},
)
PLAUSIBLE_SCHEMA = pa.schema(
    [
        *_QUERY,
        *[
            tables.field(
                f"r_precision_{most}", pa.float64(), f"among the items that differ in {most} labels at most, 0 to 1"
            )
            for most in (0, 1, 2)
        ],
    ],
    metadata={"artefact": "plausible", "version": "1"},
)
SCHEMAS = {JUDGED: JUDGED_SCHEMA, PLAUSIBLE: PLAUSIBLE_SCHEMA}


def write(folder: Path, found: dict[str, pa.Table], names: TextIds | None = None) -> None:
    """found: by file name; names: of ids that are text, which get the column ``query_name``."""
    for name, table in found.items():
        tables.write(folder / name, *named(table, with_further(SCHEMAS[name], table.column_names), names), {})


def read(path: Path) -> pa.Table:
    """path: of a file with one of the two names."""
    return tables.read(path, SCHEMAS[path.name], "vse-pipe evaluate")
