"""Outcomes as the Parquet tables of ``vse_pipe.artifacts.evaluation``."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from vse_pipe.artifacts.evaluation import (
    KS,
    MEASURES,
    OCCURRENCE_SCHEMA,
    RANKS_SCHEMA,
    RELAXATION_SCHEMA,
    with_further,
)
from vse_pipe.ranking.evaluation import Outcome

DIGITS = 6


def rank_table(
    outcome: Outcome, direction: str, fold: int, queries: np.ndarray, items: np.ndarray, clusters: np.ndarray
) -> pa.Table:
    """A row per query. queries, items: their ids, int64, in the order of the scores' rows and columns;
    clusters: for each query the image_id of the image that it is or that it describes, int64."""
    count = len(queries)
    offsets = np.concatenate([[0], outcome.lengths.cumsum()]).astype(np.int32)
    ranks = _or_nulls(None if outcome.ranks is None else outcome.ranks + 1, count)
    columns = {
        **_heading(direction, fold, count),
        "query_id": pa.array(queries),
        "image_id": pa.array(clusters),
        "rank": ranks,
        **{f"hit_{k}": pa.array(hits) for k, hits in outcome.hits.items()},
        **{name: _or_nulls(outcome.measures.get(name), count) for name in {**MEASURES, **outcome.measures}},
        "top": pa.ListArray.from_arrays(offsets, pa.array(items[outcome.top]), type=RANKS_SCHEMA.field("top").type),
    }
    return pa.table(columns, schema=with_further(RANKS_SCHEMA, columns))


def occurrence_table(outcome: Outcome, direction: str, fold: int, items: np.ndarray) -> pa.Table:
    """A row per item. items: their ids, int64, in the order of the scores' columns."""
    counts = {f"n_{k}": pa.array(n.astype(np.int32)) for k, n in outcome.occurrence.items()}
    columns = {**_heading(direction, fold, len(items)), "item_id": pa.array(items), **counts}
    return pa.table(columns, schema=OCCURRENCE_SCHEMA)


def relaxation_table(
    direction: str,
    lambdas: Sequence[float],
    chosen: dict[int, float],
    validation: Float[np.ndarray, "ks lambdas"],
    ranked: Float[np.ndarray, "ks lambdas"],
) -> pa.Table:
    """A row per K and lambda. validation: R@K that lambda was chosen by; ranked: on the split that is measured, NaN where
    it was not tried."""
    columns = {
        "direction": pa.repeat(direction, len(KS) * len(lambdas)),
        "k": pa.array(np.repeat(np.array(KS, np.int32), len(lambdas))),
        "lambda": pa.array(np.tile(np.array(lambdas, float), len(KS))),
        "validation": pa.array(validation.ravel()),
        "ranked": pa.array(ranked.ravel(), mask=np.isnan(ranked.ravel())),
        "chosen": pa.array([lam == chosen[k] for k in KS for lam in lambdas]),
    }
    return pa.table(columns, schema=RELAXATION_SCHEMA)


def _heading(direction: str, fold: int, rows: int) -> dict[str, pa.Array]:
    return {"direction": pa.repeat(direction, rows), "fold": pa.repeat(pa.scalar(fold, pa.int32()), rows)}


def _or_nulls(values: np.ndarray | None, rows: int) -> pa.Array:
    return pa.nulls(rows, pa.float64()) if values is None else pa.array(values)


def rounded(values: dict) -> dict:
    """Intervals, in whatever place."""
    return {
        name: rounded(value) if isinstance(value, dict) else [round(end, DIGITS) for end in value]
        for name, value in values.items()
    }
