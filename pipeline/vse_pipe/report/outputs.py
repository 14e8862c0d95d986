"""Published figures next to measured ones, and the contents of metrics.json and of the plots."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.papers import catalogue, compare
from vse_pipe.report.reading import RepeatedEvaluation, localised
from vse_pipe.report.results import BASELINE, Evaluation, Results, RunResult

Row = tuple[str, float, float, float]


@dataclass(frozen=True)
class Table:
    """ranking: "ranked with nns" or "localised". title: paper and row. rows: (figure, published, ours, difference)."""

    ranking: str
    title: str
    rows: list[Row]


@dataclass(frozen=True)
class Published:
    """A run and the row it repeats, with a table for each common criterion or for its localisation.

    kind: run or ensemble. cautions: differences from the setting of the row, one sentence each.
    """

    run: str
    kind: str
    row: str
    tables: list[Table]
    cautions: list[str]


def collect(results: Results) -> list[Published]:
    """One entry for each run that names a row, in the order of the page. Raises UsageError for an unknown row."""
    return [_published(run, run.row, localised(results, run)) for run in results.methods() if run.row]


def _published(run: RunResult, row: str, localisation: dict | None) -> Published:
    measured = [
        (f"ranked with {result.inference}", result.metrics, result.inference) for result in run.evaluations.values()
    ]
    if localisation:
        measured.append(("localised", localisation, BASELINE))
    tables = [table for figures in measured if (table := _table(*figures, row))]
    metrics = {**run.baseline.metrics, **(localisation or {})}
    return Published(run.name, run.kind, row, tables, compare.cautions(row, metrics, run.params))


def _table(ranking: str, metrics: dict, inference: str, row: str) -> Table | None:
    rows = compare.compared_figures(row, metrics, inference)
    if not rows:
        return None
    entry = compare.rows_of_model(row)[inference]
    paper = catalogue.load(entry.paper)
    return Table(ranking, f"{paper.title} ({paper.venue}), row {entry.id}", rows)


# Finer than one query in a million; excludes the last bits of a float, which differ between machines.
_DECIMALS = 4
# A pull request is judged by these. All figures are in data/evaluate/, on the page, and in `vse-pipe compare`.
_OF_A_DIRECTION = ("r@1",)
# Sizes of the split never change, so they are no metrics.
_COUNTS = ("queries", "items", "judgements", "unranked")
_FURTHER = {"judged", "plausible"}
_SUMS = ("rsum", "hs_sum")


def metrics(results: Results) -> dict:
    """{run: {criterion: {direction: {"r@1": number}, "rsum": number, "hs_sum": number}, "data": digest, "localisation":
    ...}}.

    A criterion has hs_sum, "judged" and "plausible" only if they are defined. A run with seeds has means, "seeds", and
    "sd" and "interval" of the sums; a transfer has "transfer"."""
    return {run.name: _figures(run) | _localisation(results, run) for run in results.methods()}


def _figures(run: RunResult) -> dict:
    data: dict = {} if run.data is None else {"data": run.data}
    if run.moved:
        data["transfer"] = run.best.metrics["transfer"]
    if run.repetitions:
        data["seeds"] = run.seeds
    return data | {name: _numbers(result.metrics) | _spread(result) for name, result in run.evaluations.items()}


def _spread(result: Evaluation) -> dict:
    """{"sd": {metric: number}, "interval": {metric: [low, high]}} of the sums, for a run with seeds."""
    if not isinstance(result, RepeatedEvaluation):
        return {}
    ends = {name: result.interval_of((name,)) for name in _SUMS}
    figures = {
        "sd": _rounded({name: result.deviations.get(name) for name in _SUMS}),
        "interval": {name: [round(end, _DECIMALS) for end in pair] for name, pair in ends.items() if pair},
    }
    return {name: content for name, content in figures.items() if content}


def _localisation(results: Results, run: RunResult) -> dict:
    """{"localisation": {metric: number, "types": {type: {metric: number}}}}; empty for a run without a localisation."""
    measured = localised(results, run)
    if measured is None:
        return {}
    types = {name: _rounded(figures) for name, figures in measured["types"].items()}
    return {"localisation": {**_rounded(measured["all"]), "types": types}}


def _rounded(figures: dict) -> dict:
    numbers = {name: value for name, value in figures.items() if isinstance(value, int | float)}
    return {name: round(value, _DECIMALS) for name, value in numbers.items() if not isinstance(value, bool)}


def _numbers(measured: dict) -> dict:
    content: dict = _rounded({name: measured[name] for name in _SUMS})
    for direction in DIRECTIONS:
        content[direction] = _rounded({name: measured[direction][name] for name in _OF_A_DIRECTION})
    for key in _FURTHER & measured.keys():
        content[key] = {direction: _without_counts(measured[key][direction]) for direction in DIRECTIONS}
    if calibration := measured.get("calibration"):
        content["calibration"] = {
            direction: {name: round(calibration[direction][name], _DECIMALS) for name in ("ece", "brier")}
            for direction in DIRECTIONS
        }
    return content


def _without_counts(figures: dict) -> dict:
    """Rounded figures without sizes, in nested dictionaries too."""
    nested = {name: _without_counts(value) for name, value in figures.items() if isinstance(value, dict)}
    return nested | {name: value for name, value in _rounded(figures).items() if name not in _COUNTS}


def rsum(results: Results) -> pd.DataFrame:
    """run, inference, rsum: one row per run and criterion."""
    rows = [
        {"run": result.run, "inference": result.inference, "rsum": round(result.rsum, _DECIMALS)}
        for run in results.methods()
        for result in run.evaluations.values()
    ]
    return pd.DataFrame(rows, columns=["run", "inference", "rsum"])


def history(results: Results) -> pd.DataFrame:
    """run, epoch, val_rsum, loss: one row per run and epoch."""
    columns = ["run", "epoch", "val_rsum", "loss"]
    tables = [run.history.assign(run=run.name)[columns] for run in results.with_curves()]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)


def occurrence(results: Results) -> pd.DataFrame:
    """run, inference, direction, n_10, items: how many items are among the best 10 of exactly n_10 queries."""
    columns = ["run", "inference", "direction", "n_10", "items"]
    tables = [pd.DataFrame(columns=columns)]
    for run in results.runs():
        for result in run.evaluations.values():
            for direction in DIRECTIONS:
                values, counts = np.unique(result.items(direction)["n_10"].to_numpy(), return_counts=True)
                names = {"run": result.run, "inference": result.inference, "direction": direction}
                tables.append(pd.DataFrame({"n_10": values, "items": counts}).assign(**names))
    return pd.concat(tables[1:] or tables, ignore_index=True)[columns]
