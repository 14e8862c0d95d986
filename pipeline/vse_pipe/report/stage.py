"""report: metrics.json for git, plots/*.csv for DVC, index.html and timings.html for people."""

import contextlib
from collections.abc import Sized
from pathlib import Path

import numpy as np
import pandas as pd

from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.core.console import say, warn
from vse_pipe.core.files import csv_text, json_text, whole_file
from vse_pipe.core.locks import claim
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.report import formatting, settings
from vse_pipe.report import page as report_page
from vse_pipe.report.page import render, title
from vse_pipe.report.pictures import Collector
from vse_pipe.report.reading import missing_lines, read
from vse_pipe.report.results import SUMS, Evaluation, Results, RunResult

_PLURALS = {"criterion": "criteria"}


def report(params: Params) -> Path:
    """Write the report on every run and criterion of params; return the page's path.

    All files change together. metrics.json holds figures only, no times and no paths, so the same
    evaluations give the same bytes. Missing outputs are named by a warning and on the page. Raises
    as ``reading.read``."""
    with claim(paths.REPORT):
        results = read(params)
        tables = {"rsum": rsum, "history": history, "occurrence": occurrence, "sweeps": settings.table}
        plots = {name: make(results) for name, make in tables.items()}
        figures = report_metrics(results)
        collector = Collector(params.report.thumbnail)
        html = render(results, collector)
        spent = report_page.rows(params)
        page = paths.REPORTS / "index.html"
        contents = {paths.REPORTS / "metrics.json": json_text(figures), page: html}
        contents |= {paths.REPORTS / "plots" / f"{name}.csv": csv_text(table) for name, table in plots.items()}
        contents[paths.REPORTS / report_page.NAME] = report_page.render_timings(spent, title(params))
        _write_together(contents)
    for line in missing_lines(results.missing):
        warn(f"not in the report: {line}")
    if collector.unreadable:
        count, first = len(collector.unreadable), collector.unreadable[0]
        warn(f"{count} pictures cannot be read, the first is {first}; the page says so")
    counted: list[tuple[str, Sized]] = [
        ("run", results.params.runs),
        ("ensemble", results.params.ensembles),
        ("transfer", results.params.transfers),
        ("criterion", results.params.grid.inferences),
    ]
    counts = [formatting.plural(len(names), word, _PLURALS.get(word)) for word, names in counted if names]
    summary = "nothing to measure, for no data set has captions"
    if results.groups:
        summary = f"{' and '.join(counts[:-1])} under {counts[-1]}"
    say(f"report: {summary}, {page} ({len(html.encode()) / 1e6:.1f} MB)")
    return page


def _write_together(contents: dict[Path, str]) -> None:
    """Every file is complete before the first one replaces its predecessor."""
    with contextlib.ExitStack() as stack:
        for path, text in contents.items():
            stack.enter_context(whole_file(path)).write_bytes(text.encode())


# Finer than one query in a million; excludes the last bits of a float, which differ between
# machines.
_DECIMALS = 4
# A pull request is judged by these. All figures are in data/evaluate/, on the page, and in
# `vse-pipe compare`.
_OF_A_DIRECTION = ("r@1",)
# Sizes of the split never change, so they are no metrics.
_COUNTS = ("queries", "items", "judgements", "unranked")
_FURTHER = {"judged", "plausible"}


def report_metrics(results: Results) -> dict:
    """{run: {criterion: {direction: {"r@1": number}, "rsum": number, "hs_sum": number}, "data":
    digest, "localisation": ...}}.

    A criterion has hs_sum, "judged" and "plausible" only if they are defined. A run with seeds has
    means, "seeds", and "sd" and "interval" of the sums; a transfer has "transfer"."""
    return {run.name: _figures(run) | _localisation(results, run) for run in results.methods()}


def _figures(run: RunResult) -> dict:
    data: dict = {} if run.data is None else {"data": run.data}
    if run.moved:
        data["transfer"] = run.best.metrics["transfer"]
    if run.repetitions:
        data["seeds"] = run.seeds
    spread = _spread if run.repetitions else lambda result: {}
    return data | {name: _numbers(result.metrics) | spread(result) for name, result in run.evaluations.items()}


def _spread(result: Evaluation) -> dict:
    """{"sd": {metric: number}, "interval": {metric: [low, high]}} of the sums over seeds."""
    ends = {name: result.interval_of((name,)) for name in SUMS}
    figures = {
        "sd": _rounded(result.deviations),
        "interval": {name: [round(end, _DECIMALS) for end in pair] for name, pair in ends.items() if pair},
    }
    return {name: content for name, content in figures.items() if content}


def _localisation(results: Results, run: RunResult) -> dict:
    """{"localisation": {metric: number, "types": {type: {metric: number}}}}, or {}."""
    measured = results.localisation_of(run)
    if measured is None:
        return {}
    types = {name: _rounded(figures) for name, figures in measured["types"].items()}
    return {"localisation": {**_rounded(measured["all"]), "types": types}}


def _rounded(figures: dict) -> dict:
    numbers = {name: value for name, value in figures.items() if isinstance(value, int | float)}
    return {name: round(value, _DECIMALS) for name, value in numbers.items() if not isinstance(value, bool)}


def _numbers(measured: dict) -> dict:
    content: dict = _rounded({name: measured[name] for name in SUMS})
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
    """run, inference, direction, n_10, items: items among the best 10 of exactly n_10 queries."""
    columns = ["run", "inference", "direction", "n_10", "items"]
    tables = [pd.DataFrame(columns=columns)]
    for run in results.runs():
        for result in run.evaluations.values():
            for direction in DIRECTIONS:
                values, counts = np.unique(result.items(direction)["n_10"].to_numpy(), return_counts=True)
                names = {"run": result.run, "inference": result.inference, "direction": direction}
                tables.append(pd.DataFrame({"n_10": values, "items": counts}).assign(**names))
    return pd.concat(tables[1:] or tables, ignore_index=True)[columns]
