"""What ``vse-pipe evaluate --trec-run`` writes: metrics.json, and queries.parquet, a row for each query that has a correct item."""

from pathlib import Path

import pyarrow as pa

from vse_pipe.artifacts.evaluation import KS, MEASURES, METRICS, with_further
from vse_pipe.core import tables
from vse_pipe.core.files import write_json

QUERIES = "queries.parquet"
FILES = (METRICS, QUERIES)
SCHEMA = pa.schema(
    [
        tables.field("query", pa.string(), "as the judgements name it"),
        tables.field("correct", pa.int32(), "items that are correct for it, 1 at least"),
        tables.field(
            "rank", pa.float64(), "1 = best, of the best of them; null where the run has none of them", nullable=True
        ),
        *[tables.field(f"hit_{k}", pa.bool_(), f"one of them among the best {k}") for k in KS],
        *[tables.field(name, pa.float64(), about.partition(";")[0]) for name, about in MEASURES.items()],
        tables.field("graded_ndcg_10", pa.float64(), "as ndcg_10, each item by its relevance"),
    ],
    metadata={"artefact": "answered", "version": "1"},
)


def write(folder: Path, metrics: dict, queries: pa.Table) -> None:
    write_json(folder / METRICS, metrics)
    tables.write(folder / QUERIES, queries, with_further(SCHEMA, queries.column_names), {})


def read(folder: Path) -> pa.Table:
    return tables.read(folder / QUERIES, SCHEMA, "vse-pipe evaluate --trec-run")
