"""Sections on criteria: what they change, their relaxation and calibration, and hubness with the worst hubs and their queries."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts.evaluation import DIRECTIONS, KS
from vse_pipe.core.seeds import generator
from vse_pipe.ranking import hubness
from vse_pipe.report import charts
from vse_pipe.report.charts import Extent, log_edges
from vse_pipe.report.formatting import HEADINGS, percent
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import Change, Evaluation, Group, Results, RunResult, change
from vse_pipe.report.sections.examples import Previews

CHANGED_KS = (1, 10)
# Examples of each kind and direction.
_EXAMPLES = 2


@dataclass(frozen=True)
class _Side:
    """The queries of a run in one direction, under the baseline and under another criterion."""

    direction: str
    before: pd.DataFrame
    after: pd.DataFrame

    def counted(self, k: int) -> Change:
        return change(self.before, self.after, k)


def changes(results: Results, collector: Collector) -> dict | None:
    """Queries that each criterion repairs and breaks, compared with the baseline; None for a grid of one criterion."""
    if len(results.params.grid.inferences) < 2:
        return None
    groups = [
        {
            "dataset": group.catalogue.name,
            "runs": [
                _changes_of_run(run, run is group.best_run, Previews(group.catalogue, collector), results)
                for run in group.first_models
            ],
        }
        for group in results.groups
    ]
    return {"groups": groups, "headings": [HEADINGS[direction] for direction in DIRECTIONS], "ks": CHANGED_KS}


def _changes_of_run(run: RunResult, is_open: bool, previews: Previews, results: Results) -> dict:
    before = {direction: run.baseline.queries(direction) for direction in DIRECTIONS}
    rows, cards = [], []
    for result in run.evaluations.values():
        if result is run.baseline:
            continue
        sides = [_Side(name, before[name], result.queries(name)) for name in DIRECTIONS]
        counts = [[side.counted(k) for k in CHANGED_KS] for side in sides]
        cells = [[(len(change.repaired), len(change.broken)) for change in changes] for changes in counts]
        rows.append({"inference": result.inference, "cells": cells})
        if is_open and results.params.report.examples:
            cards.append(_examples(result, run.baseline, sides, previews, results.params.seed))
    return {
        "run": run.name,
        "kind": run.kind,
        "open": is_open,
        "baseline": run.baseline.inference,
        "charts": [_balance_chart(run, index, rows, previews.collector) for index in range(len(DIRECTIONS))],
        "rows": rows,
        "examples": [{**card, "open": card["evaluation"] is run.contrast} for card in cards if card["rows"]],
    }


def _balance_chart(run: RunResult, index: int, rows: list[dict], collector: Collector) -> dict:
    counts = [(row["inference"], *row["cells"][index][0]) for row in rows]
    heading = HEADINGS[DIRECTIONS[index]]
    counts_text = "; ".join(f"{name} repairs {repaired} and breaks {broken}" for name, repaired, broken in counts)
    label = f"{heading}, queries right at 1 under a criterion against {run.baseline.inference}: {counts_text}."
    return {"heading": heading, "chart": collector.chart(charts.balance(counts), label)}


def _examples(result: Evaluation, baseline: Evaluation, sides: list[_Side], previews: Previews, seed: int) -> dict:
    """Some queries, drawn by the seed. A matching has sets at K = 10 only, so that right means right at 10."""
    k = CHANGED_KS[-1] if result.matching or baseline.matching else CHANGED_KS[0]
    rows, name = [], previews.catalogue.name
    for side in sides:
        changed = side.counted(k)
        draw = generator(seed, "report", "changes", name, result.run, result.inference, side.direction)
        for kind, ids in (("repaired", changed.repaired), ("broken", changed.broken)):
            for number in draw.permutation(ids)[:_EXAMPLES].tolist():
                query, right = previews.query(number, side.direction), previews.correct(number, side.direction)
                cells = [
                    _cell(table.loc[number], criterion, right, side.direction, previews)
                    for table, criterion in ((side.before, baseline), (side.after, result))
                ]
                first = previews.item(right[0], side.direction)
                rows.append({"kind": kind, "query": query, "cells": cells, "right": first})
    return {"inference": result.inference, "evaluation": result, "k": k, "rows": rows}


def _cell(row: pd.Series, result: Evaluation, right: list[int], direction: str, previews: Previews) -> dict:
    """The first item; for a matching only whether its set has a correct item."""
    if result.matching:
        return {"item": None, "right": bool(row["hit_10"]), "rank": None}
    first = int(row["top"][0])
    return {"item": previews.item(first, direction), "right": first in right, "rank": float(row["rank"])}


def relaxation(results: Results, collector: Collector) -> dict | None:
    """None when no criterion chose its lambda."""
    names = {"validation": "validation", "ranked": results.params.evaluate.split}
    groups = [_relaxation_group(group, names, collector) for group in results.groups]
    groups = [group for group in groups if group["runs"]]
    return {"groups": groups, "names": names} if groups else None


def _relaxation_group(group: Group, names: dict[str, str], collector: Collector) -> dict:
    runs = []
    for run in group.first_models:
        relaxations = {name: result.relaxation for name, result in run.evaluations.items()}
        if tables := {name: table.to_pandas() for name, table in relaxations.items() if table is not None}:
            sides = [_relaxation_side(tables, direction, names, collector) for direction in DIRECTIONS]
            head = {"run": run.name, "kind": run.kind, "open": run is group.best_run}
            runs.append({**head, "criteria": list(tables), "sides": sides})
    return {"dataset": group.catalogue.name, "runs": runs}


def _relaxation_side(
    tables: dict[str, pd.DataFrame], direction: str, names: dict[str, str], collector: Collector
) -> dict:
    drawn, rows = [], []
    for k in KS:
        curves = {name: table[(table["direction"] == direction) & (table["k"] == k)] for name, table in tables.items()}
        figures = [_row(name, k, table) for name, table in curves.items()]
        label = f"R@{k}, {direction.replace('_', ' ')}, against lambda: " + "; ".join(map(_sentence, figures))
        drawn.append({"k": k, "chart": collector.chart(charts.curves(curves, names), f"{label}.")})
        rows += figures
    values = sorted({float(lam) for table in tables.values() for lam in table["lambda"]})
    return {
        "heading": HEADINGS[direction],
        "charts": drawn,
        "rows": rows,
        "values": _values(tables, direction, values),
        "columns": [(name, k) for name in tables for k in KS],
    }


def _row(name: str, k: int, table: pd.DataFrame) -> dict:
    chosen = table[table["chosen"]].iloc[0]
    tried = table[table["ranked"].notna()]
    return {
        "inference": name,
        "k": k,
        "lambda": float(chosen["lambda"]),
        "validation": [
            float(table["validation"].iloc[0]),
            float(chosen["validation"]),
            float(table["validation"].iloc[-1]),
        ],
        "ranked": [float(tried["ranked"].iloc[0]), float(chosen["ranked"]), float(tried["ranked"].iloc[-1])],
        "ends": (float(table["lambda"].iloc[0]), float(table["lambda"].iloc[-1])),
    }


def _sentence(row: dict) -> str:
    low, high = row["ends"]
    first, chosen, last = row["validation"]
    return f"{row['inference']} has {first:.1f} on validation at {low:g}, {chosen:.1f} at the chosen {row['lambda']:g} and {last:.1f} at {high:g}"


def _values(tables: dict[str, pd.DataFrame], direction: str, values: list[float]) -> list[tuple]:
    """The validation curves as a table: one row a lambda, one column a criterion and K."""
    columns = []
    for table in tables.values():
        for k in KS:
            rows = table[(table["direction"] == direction) & (table["k"] == k)]
            columns.append(dict(zip(rows["lambda"], rows["validation"], strict=True)))
    return [(lam, [column.get(lam) for column in columns]) for lam in values]


def calibration(results: Results, collector: Collector) -> dict | None:
    """None when no evaluation was calibrated."""
    groups = [_calibration_group(group, collector) for group in results.groups]
    groups = [group for group in groups if group["runs"]]
    return {"groups": groups, "split": results.params.evaluate.split} if groups else None


def _calibration_group(group: Group, collector: Collector) -> dict:
    runs = []
    for run in group.first_models:
        documents = {name: result.metrics.get("calibration") for name, result in run.evaluations.items()}
        if measured := {name: document for name, document in documents.items() if document}:
            sides = [_calibration_side(measured, direction, collector) for direction in DIRECTIONS]
            head = {"run": run.name, "kind": run.kind, "open": run is group.best_run}
            runs.append({**head, "criteria": list(measured), "sides": sides})
    return {"dataset": group.catalogue.name, "runs": runs}


def _calibration_side(measured: dict[str, dict], direction: str, collector: Collector) -> dict:
    figures = {name: values[direction] for name, values in measured.items()}
    errors = "; ".join(f"{name} is off by {values['ece']:.3f} on average" for name, values in figures.items())
    label = f"Share of matches against the probability told, {direction.replace('_', ' ')}: {errors}."
    return {
        "heading": HEADINGS[direction],
        "chart": collector.chart(charts.reliability(figures), label),
        "rows": [{"inference": name, **values} for name, values in figures.items()],
        "candidates": next(iter(figures.values()))["candidates"],
    }


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


def occurrences(results: Results, collector: Collector) -> dict:
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
    return {"k": k, "rows": rows, "bins": _bins(columns, extent[0])}


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


_SHARES = (hubness.robin_hood, hubness.gini, hubness.anti_hubs, hubness.hub_share)


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
