"""The queries that each criterion repairs and breaks, compared with the baseline."""

from dataclasses import dataclass

import pandas as pd

from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.core.seeds import generator
from vse_pipe.report import charts
from vse_pipe.report.formatting import HEADINGS
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import Change, DatasetIndex, Evaluation, Results, RunResult, change
from vse_pipe.report.sections.examples import correct, preview

TITLE = "What each criterion changed"
KS = (1, 10)
_EACH = 2


@dataclass(frozen=True)
class _Side:
    """The queries of a run in one direction, under the baseline and under another criterion."""

    direction: str
    before: pd.DataFrame
    after: pd.DataFrame

    def counted(self, k: int) -> Change:
        return change(self.before, self.after, k)


def context(results: Results, collector: Collector) -> dict | None:
    """None when the grid has one criterion only."""
    if len(results.params.grid.inferences) < 2:
        return None
    return {
        "groups": [
            {
                "dataset": group.catalogue.name,
                "runs": [
                    _run(run, run is group.best_run, group.catalogue, results, collector) for run in group.first_models
                ],
            }
            for group in results.groups
        ],
        "headings": [HEADINGS[direction] for direction in DIRECTIONS],
        "ks": KS,
    }


def _run(run: RunResult, is_open: bool, catalogue: DatasetIndex, results: Results, collector: Collector) -> dict:
    before = {direction: run.baseline.queries(direction) for direction in DIRECTIONS}
    rows, cards = [], []
    for result in run.evaluations.values():
        if result is run.baseline:
            continue
        sides = [_Side(name, before[name], result.queries(name)) for name in DIRECTIONS]
        counts = [[side.counted(k) for k in KS] for side in sides]
        cells = [[(len(change.repaired), len(change.broken)) for change in changes] for changes in counts]
        rows.append({"inference": result.inference, "cells": cells})
        if is_open and results.params.report.examples:
            cards.append(_examples(result, run.baseline, sides, catalogue, results.params.seed, collector))
    return {
        "run": run.name,
        "kind": run.kind,
        "open": is_open,
        "baseline": run.baseline.inference,
        "charts": [_chart(run, index, rows, collector) for index in range(len(DIRECTIONS))],
        "rows": rows,
        "examples": [{**card, "open": card["evaluation"] is run.contrast} for card in cards if card["rows"]],
    }


def _chart(run: RunResult, index: int, rows: list[dict], collector: Collector) -> dict:
    """The chart for the first K."""
    counts = [(row["inference"], *row["cells"][index][0]) for row in rows]
    heading = HEADINGS[DIRECTIONS[index]]
    counts_text = "; ".join(f"{name} repairs {repaired} and breaks {broken}" for name, repaired, broken in counts)
    label = f"{heading}, queries right at 1 under a criterion against {run.baseline.inference}: {counts_text}."
    return {"heading": heading, "chart": collector.chart(charts.balance(counts), label)}


def _examples(
    result: Evaluation,
    baseline: Evaluation,
    sides: list[_Side],
    catalogue: DatasetIndex,
    seed: int,
    collector: Collector,
) -> dict:
    """Some queries, drawn by the seed. A matching has sets at K = 10 only, so that right means right at 10."""
    k = KS[-1] if result.matching or baseline.matching else KS[0]
    rows = []
    for side in sides:
        changed = side.counted(k)
        draw = generator(seed, "report", "changes", catalogue.name, result.run, result.inference, side.direction)
        for kind, ids in (("repaired", changed.repaired), ("broken", changed.broken)):
            for number in draw.permutation(ids)[:_EACH].tolist():
                rows.append({"kind": kind, **_example(number, side, result, baseline, catalogue, collector)})
    return {"inference": result.inference, "evaluation": result, "k": k, "rows": rows}


def _example(
    number: int,
    side: _Side,
    result: Evaluation,
    baseline: Evaluation,
    catalogue: DatasetIndex,
    collector: Collector,
) -> dict:
    is_text = side.direction == "text_to_image"
    catalogue.require([number], side.direction, "queries")
    right = correct(number, side.direction, catalogue)
    cells = [
        _cell(table.loc[number], criterion, right, side.direction, catalogue, collector)
        for table, criterion in ((side.before, baseline), (side.after, result))
    ]
    return {
        "query": preview(number, not is_text, catalogue, collector),
        "cells": cells,
        "right": preview(right[0], is_text, catalogue, collector),
    }


def _cell(
    row: pd.Series,
    result: Evaluation,
    right: list[int],
    direction: str,
    catalogue: DatasetIndex,
    collector: Collector,
) -> dict:
    """The first item; for a matching only whether its set has a correct item."""
    if result.matching:
        return {"item": None, "right": bool(row["hit_10"]), "rank": None}
    first = catalogue.require([int(row["top"][0])], direction, "items")[0]
    item = preview(first, direction == "text_to_image", catalogue, collector)
    return {"item": item, "right": first in right, "rank": float(row["rank"])}
