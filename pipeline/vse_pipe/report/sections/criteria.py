"""Sections about criteria: queries that each repairs and breaks, recall against lambda, and calibration."""

from dataclasses import dataclass

import pandas as pd

from vse_pipe.artifacts.evaluation import DIRECTIONS, KS
from vse_pipe.core.seeds import generator
from vse_pipe.report import charts as report_charts
from vse_pipe.report.formatting import HEADINGS
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
    return {"heading": heading, "chart": collector.chart(report_charts.balance(counts), label)}


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
    charts, rows = [], []
    for k in KS:
        curves = {name: table[(table["direction"] == direction) & (table["k"] == k)] for name, table in tables.items()}
        figures = [_row(name, k, table) for name, table in curves.items()]
        label = f"R@{k}, {direction.replace('_', ' ')}, against lambda: " + "; ".join(map(_sentence, figures))
        chart = collector.chart(report_charts.curves(curves, names), f"{label}.")
        charts.append({"k": k, "chart": chart})
        rows += figures
    values = sorted({float(lam) for table in tables.values() for lam in table["lambda"]})
    return {
        "heading": HEADINGS[direction],
        "charts": charts,
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
    return (
        f"{row['inference']} has {first:.1f} on validation at {low:g}, {chosen:.1f} at the chosen {row['lambda']:g} "
        f"and {last:.1f} at {high:g}"
    )


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
        "chart": collector.chart(report_charts.reliability(figures), label),
        "rows": [{"inference": name, **values} for name, values in figures.items()],
        "candidates": next(iter(figures.values()))["candidates"],
    }
