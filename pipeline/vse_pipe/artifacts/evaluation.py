"""data/evaluate/<run>/<inference>/: metrics.json, ranks.parquet (a row per query),
occurrence.parquet (a row per item), and relaxation.parquet if val chose a matching's lambda. Text
ids add columns ``query_name``, ``image_name``, ``top_names`` and ``item_name``.

metrics.json has the figures of each direction, rsum and hs_sum, their intervals, the setting they
were measured in, and

- ``ensemble``: ``runs``, ``weights``, ``rule`` and ``rescore``;
- ``tuned_on``: the validation data that chose parameters, if it is of another data set.

Beside these folders, unmeasured.json has ``why`` (a data set without captions) or ``criteria`` (by
name, why each was not computed).

data/evaluate/<run>/<inference>/: judged.parquet, a row for each query with a correct item by
``evaluate.judgements``.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts.names import TextIds
from vse_pipe.core import tables
from vse_pipe.core.files import read_json, write_json
from vse_pipe.core.tables import field

METRICS, RANKS, OCCURRENCE = "metrics.json", "ranks.parquet", "occurrence.parquet"
RELAXATION = "relaxation.parquet"
JUDGED = "judged.parquet"
# In data/evaluate/<run>/: the reasons for missing figures.
UNMEASURED = "unmeasured.json"
DIRECTIONS = ("image_to_text", "text_to_image")
KS = (1, 5, 10)
# Columns of ids, and of their names if ids are text.
_NAMES = {"query_id": "query_name", "item_id": "item_name", "image_id": "image_name", "top": "top_names"}
MEASURES = {
    "ap": "average precision, 0 to 1; null for matchings",
    "ap_at_r": "(1/R) sum of the precision at the ranks up to R that hold one of the R correct items, 0 to 1; "
    "null for matchings",
    "r_precision": "share of the best R that is correct, 0 to 1; null for matchings",
    "ndcg_10": "discounted cumulative gain of the best 10 over that of a perfect ranking, 0 to 1; null for matchings",
}
_TOP = pa.list_(pa.field("element", pa.int64(), nullable=False))
_QUERY = [
    field("direction", pa.string(), "image_to_text or text_to_image"),
    field("fold", pa.int32(), "0 under protocol full"),
    field("query_id", pa.int64(), "image_id or caption_id"),
]
RANKS_SCHEMA = tables.schema(
    "ranks 2",
    *_QUERY,
    field("image_id", pa.int64(), "the query, or the image it describes; queries that share one go together"),
    field("rank", pa.float64(), "1 = best, of the best correct item; null for matchings", nullable=True),
    *[field(f"hit_{k}", pa.bool_(), f"a correct item among the best {k}") for k in KS],
    *[field(name, pa.float64(), about, nullable=True) for name, about in MEASURES.items()],
    field("top", _TOP, "ids of the best 10 items, best first; for matchings the set matched at K = 10"),
)
# Columns of other K, as ``evaluate.recall`` and ``evaluate.ndcg`` ask for them.
_FURTHER = {
    "hit_": (pa.bool_(), "a correct item among the best "),
    "ndcg_": (pa.float64(), "as ndcg_10, of the best "),
    "graded_ndcg_": (pa.float64(), "as graded_ndcg_10, of the best "),
}
OCCURRENCE_SCHEMA = tables.schema(
    "occurrence 1",
    *_QUERY[:2],
    field("item_id", pa.int64(), "caption_id or image_id"),
    *[field(f"n_{k}", pa.int32(), f"queries that have it among their best {k}") for k in KS],
)
RELAXATION_SCHEMA = tables.schema(
    "relaxation 1",
    _QUERY[0],
    field("k", pa.int32(), "the K of R@K: 1, 5 or 10"),
    field("lambda", pa.float64(), "relaxation factor of the matching, at least 1"),
    field("validation", pa.float64(), "R@K in percent on the validation data it was chosen on"),
    field("chosen", pa.bool_(), "the lambda that the criterion was run with; one for each K"),
)


def with_further(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    """``schema`` with the columns of other K, such as ``hit_50``, among ``names``."""
    for name in names:
        prefix = name.rstrip("0123456789")
        if name not in schema.names and prefix in _FURTHER:
            kind, about = _FURTHER[prefix]
            schema = schema.append(field(name, kind, about + name.removeprefix(prefix)))
    return schema


def write(folder: Path, metrics: dict, contents: dict[str, pa.Table], names: TextIds | None = None) -> None:
    """metrics: finite numbers, strings and nested dictionaries only. contents: tables by file name,
    those of ``SCHEMAS``; names: text ids, which get further columns."""
    write_json(folder / METRICS, metrics)
    for name, table in contents.items():
        tables.write(folder / name, *with_names(table, with_further(SCHEMAS[name], table.column_names), names), {})


def with_names(table: pa.Table, schema: pa.Schema, names: TextIds | None) -> tuple[pa.Table, pa.Schema]:
    """The table and schema with a column of names for each column of ids, ``query_name`` for
    ``query_id``; null for a side with numbers."""
    if names is None:
        return table, schema
    parts = [table.filter(pc.equal(table["direction"], direction)) for direction in DIRECTIONS]
    sides = (("image_id", "caption_id"), ("caption_id", "image_id"))
    for column in [name for name in _NAMES if name in schema.names]:
        texts = []
        for part, (query_key, item_key) in zip(parts, sides, strict=True):
            key = {"query_id": query_key, "image_id": "image_id"}.get(column, item_key)
            texts.append(_texts(names, key, part[column].combine_chunks()))
        about = f"of {column}, where that is text"
        schema = schema.append(field(_NAMES[column], texts[0].type, about, nullable=True))
        table = table.append_column(_NAMES[column], pa.chunked_array(texts))
    return table, schema


def _texts(names: TextIds, key: str, ids: pa.Array) -> pa.Array:
    if pa.types.is_list(ids.type):
        return pa.ListArray.from_arrays(ids.offsets, _texts(names, key, ids.flatten()))
    texts = names.texts(key, ids.to_numpy())
    return pa.nulls(len(ids), pa.string()) if texts is None else texts


def few_items(metrics: dict) -> list[str]:
    """A sentence for each direction where K is above a tenth of the items."""
    items = {direction: metrics[direction]["items"] for direction in DIRECTIONS}
    return [
        f"{direction.replace('_', ' ')}: only {items[direction]} {kind} are ranked; "
        f"{', '.join(f'R@{k}' for k in KS if 10 * k > items[direction])} and rsum are large whatever the model"
        for direction, kind in zip(DIRECTIONS, ("captions", "images"), strict=True)
        if 10 * max(KS) > items[direction]
    ]


def read_unmeasured(folder: Path) -> dict[str, str]:
    """{criterion: reason} of criteria without figures. folder: data/evaluate/<run>/."""
    path = folder / UNMEASURED
    return read_json(path).get("criteria", {}) if path.is_file() else {}


def read_metrics(folder: Path) -> dict:
    return read_json(folder / METRICS)


read_ranks = tables.Artefact(RANKS, RANKS_SCHEMA).read
read_occurrence = tables.Artefact(OCCURRENCE, OCCURRENCE_SCHEMA).read


def read_relaxation(folder: Path) -> pa.Table | None:
    """The table; None where no lambda was chosen."""
    path = folder / RELAXATION
    return tables.read(path, RELAXATION_SCHEMA) if path.is_file() else None


JUDGED_SCHEMA = tables.schema(
    "judged 1",
    *_QUERY,
    field("correct", pa.int32(), "items whose grade says that they are correct, 1 at least"),
    field("rank", pa.float64(), "1 = best, of the best of them"),
    *[field(f"hit_{k}", pa.bool_(), f"one of them among the best {k}") for k in KS],
    *[field(name, pa.float64(), about.partition(";")[0]) for name, about in MEASURES.items()],
    field("graded_ndcg_10", pa.float64(), "as ndcg_10, each item by its grade"),
)
SCHEMAS = {
    RANKS: RANKS_SCHEMA,
    OCCURRENCE: OCCURRENCE_SCHEMA,
    RELAXATION: RELAXATION_SCHEMA,
    JUDGED: JUDGED_SCHEMA,
}


# Digits of a figure in metrics.json.
DIGITS = 6


def rounded(figures: Any) -> Any:
    """Nested figures and intervals; numbers that are not floats stay as they are."""
    if isinstance(figures, dict):
        return {name: rounded(value) for name, value in figures.items()}
    if isinstance(figures, list | tuple):
        return [rounded(value) for value in figures]
    return round(figures, DIGITS) if isinstance(figures, float) else figures


def heading(direction: str, fold: int, rows: int) -> dict[str, pa.Array]:
    return {"direction": pa.repeat(direction, rows), "fold": pa.repeat(pa.scalar(fold, pa.int32()), rows)}
