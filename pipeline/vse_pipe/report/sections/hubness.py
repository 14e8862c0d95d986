"""The section on hubness: its measures under each criterion, and the worst hubs with their queries."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts.evaluation import DIRECTIONS, KS
from vse_pipe.ranking import hubness as metrics_hubness
from vse_pipe.report import charts
from vse_pipe.report.charts import Extent, log_edges
from vse_pipe.report.formatting import percent
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import Evaluation, Group, Results, RunResult
from vse_pipe.report.sections.examples import Previews

_K = 10
# The K of the papers' charts, the larger one first.
_DRAWN = (10, 1)
# Only the best runs have charts; the tables have all runs.
_CHARTED = 8
_HUBS = 5
_DRAWN_IN = 6
_WORDS = {
    "image_to_text": ("Image to text", "caption", "image"),
    "text_to_image": ("Text to image", "image", "caption"),
}


def hubness(results: Results, collector: Collector) -> dict:
    return {
        "groups": [_group(group, collector) for group in results.groups],
        "k": _K,
        "ks": KS,
        "drawn": _DRAWN,
        "charted": _CHARTED,
    }


def _group(group: Group, collector: Collector) -> dict:
    best = sorted(group.first_models, key=lambda run: -run.best.rsum)[:_CHARTED]
    previews = Previews(group.catalogue, collector)
    return {
        "dataset": group.catalogue.name,
        "left_out": len(group.first_models) - len(best),
        "runs": [_run(run, run is group.best_run, run in best, previews) for run in group.first_models],
    }


def _run(run: RunResult, is_open: bool, is_drawn: bool, previews: Previews) -> dict:
    return {
        "run": run.name,
        "kind": run.kind,
        "open": is_open,
        "baseline": run.baseline.inference,
        "contrast": run.contrast.inference,
        "sides": [
            {
                **_side(run, direction),
                "charts": [_charts(run, direction, k, previews.collector) for k in _DRAWN] if is_drawn else [],
                "hubs": _hubs(run, direction, previews) if is_open else [],
            }
            for direction in DIRECTIONS
        ],
    }


def _side(run: RunResult, direction: str) -> dict:
    title, item, query = _WORDS[direction]
    rows = [
        {
            "inference": result.inference,
            "skews": [result.metrics[direction][f"skew@{k}"] for k in KS],
            "shares": measure(result.items(direction), _K),
        }
        for result in run.evaluations.values()
    ]
    return {"title": title, "item": item, "query": query, "direction": direction, "rows": rows}


def _charts(run: RunResult, direction: str, k: int, collector: Collector) -> dict:
    columns = {name: result.items(direction)[f"n_{k}"].to_numpy() for name, result in run.evaluations.items()}
    extent = charts.extent(list(columns.values()))
    rows = [_chart(result, run, direction, k, extent, collector) for result in run.evaluations.values()]
    return {"k": k, "rows": rows, "bins": _bins(columns, extent.largest)}


def _chart(result: Evaluation, run: RunResult, direction: str, k: int, extent: Extent, collector: Collector) -> dict:
    after, before = (criterion.items(direction)[f"n_{k}"].to_numpy() for criterion in (result, run.baseline))
    is_baseline = result is run.baseline
    spec = charts.distribution(after, None if is_baseline else before, extent)
    never = percent((after == 0).mean())
    _, item, query = _WORDS[direction]
    label = (
        f"{result.inference}, {direction.replace('_', ' ')}, N_{k} of {len(after)} {item}s: {never} are among the best {k} of no "
        f"{query}, the most frequent of {after.max()}"
    )
    if not is_baseline:
        was = percent((before == 0).mean())
        label += f"; under {run.baseline.inference} {was} and {before.max()}"
    return {
        "inference": result.inference,
        "never": never,
        "is_baseline": is_baseline,
        "chart": collector.chart(spec, f"{label}."),
    }


def _bins(columns: dict, largest: int) -> list[tuple[str, list[int]]]:
    """The charts as a table: numbers of items, one row a bin with items and one column a criterion."""
    edges = [0, *log_edges(largest)]
    rows = []
    for low, high in pairwise(edges):
        counts = [int(((n >= low) & (n < high)).sum()) for n in columns.values()]
        if any(counts):
            rows.append((f"{low}" if high == low + 1 else f"{low} to {high - 1}", counts))
    return rows


def _hubs(run: RunResult, direction: str, previews: Previews) -> list[dict]:
    """The items with the largest N_10 under the baseline, some of their queries, and N_10 under the contrast."""
    order = run.baseline.items(direction).sort_values(["n_10", "item_id"], ascending=[False, True], kind="stable")
    after = run.contrast.items(direction).groupby("item_id")["n_10"].sum()
    worst = order.head(_HUBS)
    ids = previews.catalogue.require(worst["item_id"].tolist(), direction, "items")
    queries, top = run.baseline.lists(direction)
    drawn = attracted(top, ids, _DRAWN_IN)

    def query(number: int, item: int) -> dict:
        return {**previews.query(number, direction), "right": item in previews.correct(number, direction)}

    return [
        {
            **previews.item(item, direction),
            "before": int(n),
            "after": int(after[item]),
            "queries": [query(int(queries[row]), item) for row in drawn[item][0]],
            "more": max(0, drawn[item][1] - _DRAWN_IN),
        }
        for item, n in zip(ids, worst["n_10"], strict=True)
    ]


_SHARES = (metrics_hubness.robin_hood, metrics_hubness.gini, metrics_hubness.anti_hubs, metrics_hubness.hub_share)


@dataclass(frozen=True)
class Hubness:
    """robin_hood, gini, anti_hubs, hub_share: shares in 0..1. largest: the largest N_k of all folds."""

    robin_hood: float
    gini: float
    anti_hubs: float
    hub_share: float
    largest: int


def measure(items: pd.DataFrame, k: int) -> Hubness:
    """The mean over folds. items: rows of occurrence.parquet in one direction."""
    folds = [group[f"n_{k}"].to_numpy() for _, group in items.groupby("fold")]
    shares = np.mean([[measure(n) for measure in _SHARES] for n in folds], axis=0).tolist()
    names = ("robin_hood", "gini", "anti_hubs", "hub_share")
    return Hubness(**dict(zip(names, shares, strict=True)), largest=int(max(n.max() for n in folds)))


def attracted(top: pa.ListArray, items: list[int], limit: int) -> dict[int, tuple[list[int], int]]:
    """For each item: at most ``limit`` rows of ``top`` with the item in their list, ordered by its position and then by
    row; and the number of all such rows."""
    flat, rows = (part.to_numpy(zero_copy_only=False) for part in (pc.list_flatten(top), pc.list_parent_indices(top)))
    lengths = pc.list_value_length(top).to_numpy(zero_copy_only=False)
    place = np.arange(len(flat)) - np.repeat(lengths.cumsum() - lengths, lengths)
    lists = {}
    for item in items:
        positions = np.flatnonzero(flat == item)
        nearest = positions[np.lexsort((rows[positions], place[positions]))]
        lists[item] = rows[nearest[:limit]].tolist(), len(positions)
    return lists
