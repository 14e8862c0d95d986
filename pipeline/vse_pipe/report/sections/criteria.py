"""Sections on criteria: what they change, their relaxation, and hubness with the worst hubs and
their queries."""

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from vse_pipe.artifacts.evaluation import DIRECTIONS, KS
from vse_pipe.core.seeds import generator
from vse_pipe.ranking import hubness
from vse_pipe.report.formatting import HEADINGS
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import Evaluation, Group, Results, RunResult
from vse_pipe.report.sections.examples import Previews

CHANGED_KS = (1, 10)
# Examples of each kind and direction.
_EXAMPLES = 2


def _by_run(results: Results, section_of: Callable[[RunResult, Group], dict | None]) -> list[dict]:
    """By data set, what ``section_of`` says of each run; of a run with seeds, of its first model.
    Runs and data sets without content are left out."""
    groups = []
    for group in results.groups:
        runs = [(run, section_of(run, group)) for run in group.first_models]
        heads = [
            {"run": run.name, "kind": run.kind, "open": run is group.best_run, **content}
            for run, content in runs
            if content is not None
        ]
        groups += [{"dataset": group.catalogue.dataset, "runs": heads}] if heads else []
    return groups


def changes(results: Results, collector: Collector) -> dict | None:
    """Queries that criteria repair and break beside the baseline; None for one criterion."""
    if len(results.params.grid.inferences) < 2:
        return None

    def of_run(run: RunResult, group: Group) -> dict:
        is_open = run is group.best_run and results.params.report.examples > 0
        previews = Previews(group.catalogue, collector)
        before = {direction: run.baseline.queries(direction) for direction in DIRECTIONS}
        rows, cards = [], []
        for result in (result for result in run.evaluations.values() if result is not run.baseline):
            sides = {direction: (before[direction], result.queries(direction)) for direction in DIRECTIONS}
            counts = [[[len(ids) for ids in change(*side, k)] for k in CHANGED_KS] for side in sides.values()]
            rows.append({"inference": result.inference, "cells": counts})
            if is_open:
                cards.append(_examples(result, run, sides, previews, results.params.seed))
        return {
            "baseline": run.baseline.inference,
            "rows": rows,
            "examples": [card for card in cards if card["rows"]],
        }

    headings = [HEADINGS[direction] for direction in DIRECTIONS]
    return {"groups": _by_run(results, of_run), "headings": headings, "ks": CHANGED_KS}


def _examples(
    result: Evaluation,
    run: RunResult,
    sides: dict[str, tuple[pd.DataFrame, pd.DataFrame]],
    previews: Previews,
    seed: int,
) -> dict:
    """Some queries, drawn by the seed. Right is right at 10 for a matching, which has sets."""
    k = CHANGED_KS[-1] if result.matching or run.baseline.matching else CHANGED_KS[0]
    rows, names = [], (previews.catalogue.dataset, result.run, result.inference)
    for direction, tables in sides.items():
        draw = generator(seed, "report", "changes", *names, direction)
        for kind, ids in zip(("repaired", "broken"), change(*tables, k), strict=True):
            for number in draw.permutation(ids)[:_EXAMPLES].tolist():
                query, right = previews.query(number, direction), previews.correct(number, direction)
                cells = [
                    _cell(table.loc[number], criterion, right, direction, previews)
                    for table, criterion in zip(tables, (run.baseline, result), strict=True)
                ]
                first = previews.item(right[0], direction)
                rows.append({"kind": kind, "query": query, "cells": cells, "right": first})
    return {"inference": result.inference, "open": result is run.contrast, "k": k, "rows": rows}


def change(baseline: pd.DataFrame, contrast: pd.DataFrame, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The ids, ascending, of queries that turn right at K = ``k``, and of those that turn wrong.
    baseline, contrast: ranks of the same queries,
    indexed by query_id in ascending order."""
    before, after = baseline[f"hit_{k}"].to_numpy(), contrast[f"hit_{k}"].to_numpy()
    ids = baseline.index.to_numpy()
    return ids[~before & after], ids[before & ~after]


def _cell(row: pd.Series, result: Evaluation, right: list[int], direction: str, previews: Previews) -> dict:
    """The first item; for a matching only whether its set has a correct item."""
    if result.matching:
        return {"item": None, "right": bool(row["hit_10"]), "rank": None}
    first = int(row["top"][0])
    return {"item": previews.item(first, direction), "right": first in right, "rank": float(row["rank"])}


def relaxation(results: Results, collector: Collector) -> dict | None:
    """None when no criterion chose its lambda."""

    def of_run(run: RunResult, group: Group) -> dict | None:
        relaxations = {name: result.relaxation for name, result in run.evaluations.items()}
        tables = {name: table.to_pandas() for name, table in relaxations.items() if table is not None}
        if not tables:
            return None
        table = pd.concat(tables, names=["criterion"]).reset_index("criterion")
        sides = [_relaxation_side(table[table["direction"] == direction], direction) for direction in DIRECTIONS]
        return {"criteria": list(tables), "sides": sides}

    groups = _by_run(results, of_run)
    return {"groups": groups} if groups else None


def _relaxation_side(table: pd.DataFrame, direction: str) -> dict:
    """table: rows of relaxation.parquet of all criteria in one direction."""
    curves = {k: table[table["k"] == k].drop(columns=["direction", "k"]) for k in KS}
    figures = {k: [_chosen(*item) for item in curve.groupby("criterion", sort=False)] for k, curve in curves.items()}
    columns = table.pivot(index="lambda", columns=["criterion", "k"], values="validation")
    return {
        "heading": HEADINGS[direction],
        "curves": curves,
        "figures": figures,
        "values": columns.astype(object).where(columns.notna(), None),
    }


def _chosen(name: str, table: pd.DataFrame) -> dict:
    """The first lambda and its recall, those that were chosen, and the last."""
    rows = table.iloc[0], table[table["chosen"]].iloc[0], table.iloc[-1]
    return {"inference": name, **{part: [row[part] for row in rows] for part in ("lambda", "validation")}}


_K = 10
# Of the end of a bin of N_k to its start.
_GROWTH = 1.25
# The K of the papers' charts, the larger one first.
_DRAWN = (10, 1)
# Only the best runs have charts; the tables have all runs.
_CHARTED = 8
_HUBS = 5
_DRAWN_IN = 6
# Items and queries.
_WORDS = {"image_to_text": ("caption", "image"), "text_to_image": ("image", "caption")}


def occurrences(results: Results, collector: Collector) -> dict:
    def of_run(run: RunResult, group: Group) -> dict:
        previews = Previews(group.catalogue, collector)
        is_drawn = run in sorted(group.first_models, key=lambda run: -run.best.rsum)[:_CHARTED]
        sides = []
        for direction in DIRECTIONS:
            item, query = _WORDS[direction]
            side: dict[str, Any] = {"title": HEADINGS[direction], "item": item, "query": query, "direction": direction}
            side["rows"] = [_hubness(result, direction) for result in run.evaluations.values()]
            side["charts"] = [_charts(run, k, direction) for k in _DRAWN] if is_drawn else []
            side["hubs"] = _hubs(run, direction, previews) if run is group.best_run else []
            sides.append(side)
        return {"baseline": run.baseline.inference, "contrast": run.contrast.inference, "sides": sides}

    return {"groups": _by_run(results, of_run), "k": _K, "ks": KS, "charted": _CHARTED}


def _hubness(result: Evaluation, direction: str) -> dict:
    skews = [result.metrics[direction][f"skew@{k}"] for k in KS]
    return {"inference": result.inference, "skews": skews, **measure(result.items(direction), _K)}


def _charts(run: RunResult, k: int, direction: str) -> dict:
    columns = {name: result.items(direction)[f"n_{k}"].to_numpy() for name, result in run.evaluations.items()}
    lines = {name: _points(n) for name, n in columns.items()}
    shares = pd.concat(lines.values())["share"]
    largest = max(2, *(int(n.max()) for n in columns.values()))
    extent = [largest, shares.min() / 1.5, shares.max() * 1.5] if len(shares) else [largest, 0.5, 1.5]
    rows = [
        {"inference": name, "line": lines[name], "mean": n.mean(), "largest": n.max(), "never": (n == 0).mean()}
        for name, n in columns.items()
    ]
    return {
        "k": k,
        "rows": rows,
        "extent": extent,
        "count": len(columns[run.baseline.inference]),
        "bins": _bins(columns, largest),
    }


def _points(n: np.ndarray) -> pd.DataFrame:
    """A row for each bin of N_k with items: its middle on a log axis, its range as text, its items,
    and their share per value of N_k."""
    edges = np.array(log_edges(int(n.max(initial=0))))
    low, high = edges[:-1], edges[1:] - 1
    items = np.histogram(n, edges)[0]
    share = items / len(n) / (high - low + 1)
    table = pd.DataFrame({"n": np.sqrt(low * high), "range": _ranges(edges), "items": items, "share": share})
    return table[items > 0]


def log_edges(largest: int) -> list[int]:
    """The starts of bins for N_k of at least 1, and the last end: 1, 2, 3, 4, 6, 8, 11, ...

    A bin ends a quarter above its start, so that bins have equal widths on a log axis and a long
    tail is readable."""
    edges = [1]
    while edges[-1] <= largest or len(edges) < 2:
        edges.append(max(edges[-1] + 1, int(edges[-1] * _GROWTH) + 1))
    return edges


def _ranges(edges: Iterable[int]) -> list[str]:
    return [f"{low}" if high == low + 1 else f"{low} to {high - 1}" for low, high in pairwise(edges)]


def _bins(columns: dict, largest: int) -> list[tuple[str, list[int]]]:
    """The charts as a table: numbers of items, a row a bin, a column a criterion."""
    edges = [0, *log_edges(largest)]
    counts = np.transpose([np.histogram(n, edges)[0] for n in columns.values()])
    return [(name, row.tolist()) for name, row in zip(_ranges(edges), counts, strict=True) if row.any()]


def _hubs(run: RunResult, direction: str, previews: Previews) -> list[dict]:
    """The items with the largest N_10 under the baseline, some queries, N_10 under the contrast."""
    order = run.baseline.items(direction).sort_values(["n_10", "item_id"], ascending=[False, True], kind="stable")
    after = run.contrast.items(direction).groupby("item_id")["n_10"].sum()
    queries, top = run.baseline.lists(direction)
    lists = attracted(top, order["item_id"].head(_HUBS).tolist())
    hubs = []
    for (item, rows), n in zip(lists.items(), order["n_10"], strict=False):
        numbers = queries[rows[:_DRAWN_IN]].tolist()
        hub = {**previews.item(item, direction), "before": int(n), "after": int(after[item])}
        hub["queries"] = [
            {**previews.query(number, direction), "right": item in previews.correct(number, direction)}
            for number in numbers
        ]
        hubs.append({**hub, "more": max(0, len(rows) - _DRAWN_IN)})
    return hubs


_SHARES = {
    "robin_hood": hubness.robin_hood,
    "gini": hubness.gini,
    "anti_hubs": hubness.anti_hubs,
    "hub_share": hubness.hub_share,
}


def measure(items: pd.DataFrame, k: int) -> dict[str, float]:
    """Shares in 0..1 as means over folds, and ``largest``, the largest N_k of all folds. items:
    rows of occurrence.parquet in one direction."""
    folds = [group[f"n_{k}"].to_numpy() for _, group in items.groupby("fold")]
    shares = {name: float(np.mean([share(n) for n in folds])) for name, share in _SHARES.items()}
    return {**shares, "largest": int(max(n.max() for n in folds))}


def attracted(top: pa.ListArray, items: list[int]) -> dict[int, list[int]]:
    """For each item: the rows of ``top`` with the item in their list, ordered by its position and
    then by row."""
    places: dict[int, list[tuple[int, int]]] = {item: [] for item in items}
    for row, ids in enumerate(top.to_pylist()):
        for place, item in enumerate(ids):
            if item in places:
                places[item].append((place, row))
    return {item: [row for _, row in sorted(pairs)] for item, pairs in places.items()}
