"""report: metrics.json for git, plots/*.csv for DVC, index.html and timings.html for people."""

import contextlib
from pathlib import Path

import pandas as pd

from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.core.console import say, warn
from vse_pipe.core.files import csv_text, json_text, whole_file
from vse_pipe.core.locks import claim
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.report import settings
from vse_pipe.report.formatting import plural
from vse_pipe.report.page import render, render_timings
from vse_pipe.report.pictures import Collector
from vse_pipe.report.reading import read
from vse_pipe.report.results import SUMS, Evaluation, Results, RunResult


def report(params: Params) -> Path:
    """Write the report on every run and criterion of params; return the page's path.

    All files change together. metrics.json holds figures only, no times and no paths, so the same
    evaluations give the same bytes. Missing outputs are named by a warning and on the page. Raises
    as ``reading.read``."""
    with claim(paths.REPORT):
        results = read(params)
        tables = {"rsum": rsum, "history": history, "occurrence": occurrence, "sweeps": settings.table}
        collector = Collector(params.report.thumbnail)
        html = render(results, collector)
        texts = {
            "metrics.json": json_text(report_metrics(results)),
            "index.html": html,
            **{f"plots/{name}.csv": csv_text(make(results)) for name, make in tables.items()},
            "timings.html": render_timings(params),
        }
        # Every file is complete before the first one replaces its predecessor.
        with contextlib.ExitStack() as stack:
            for name, text in texts.items():
                stack.enter_context(whole_file(paths.REPORTS / name)).write_bytes(text.encode())
    for subject, reason in results.missing:
        warn(f"not in the report: {subject}: {reason}")
    if collector.unreadable:
        count, first = len(collector.unreadable), collector.unreadable[0]
        warn(f"{count} pictures cannot be read, the first is {first}; the page says so")
    count = len(results.params.evaluated())
    say(f"report: {plural(count, 'model')}, {paths.REPORTS / 'index.html'} ({len(html.encode()) / 1e6:.1f} MB)")
    return paths.REPORTS / "index.html"


# Finer than one query in a million; excludes the last bits of a float, which differ between
# machines.
_DECIMALS = 4
# Sizes of the split never change, so they are no metrics.
_COUNTS = ("queries", "items", "judgements", "unranked")


def report_metrics(results: Results) -> dict:
    """{run: {criterion: {direction: {"r@1": number}, "rsum": number, "hs_sum": number}, "data":
    digest, "localisation": ...}}.

    A criterion has hs_sum, "judged" only if they are defined. A run with seeds has
    means, "seeds", and "sd" and "interval" of the sums; a transfer has "transfer"."""
    return {run.name: _figures(run) | _localisation(results, run) for run in results.methods()}


def _figures(run: RunResult) -> dict:
    data: dict = {} if run.data is None else {"data": run.data}
    if run.moved:
        data["transfer"] = run.best.metrics["transfer"]
    if run.repetitions:
        data["seeds"] = run.seeds
    return data | {name: _numbers(result.metrics) | _spread(run, result) for name, result in run.evaluations.items()}


def _spread(run: RunResult, result: Evaluation) -> dict:
    """{"sd": {metric: number}, "interval": {metric: [low, high]}} of the sums over seeds."""
    if not run.repetitions:
        return {}
    ends = {name: result.interval_of((name,)) for name in SUMS}
    intervals = {name: [round(end, _DECIMALS) for end in pair] for name, pair in ends.items() if pair}
    figures = {"sd": _rounded(result.deviations), "interval": intervals}
    return {name: content for name, content in figures.items() if content}


def _localisation(results: Results, run: RunResult) -> dict:
    """{"localisation": {metric: number, "types": {type: {metric: number}}}}, or {}."""
    measured = results.localisation_of(run)
    if measured is None:
        return {}
    types = {name: _rounded(figures) for name, figures in measured["types"].items()}
    return {"localisation": {**_rounded(measured["all"]), "types": types}}


def _rounded(figures: dict) -> dict:
    """Rounded figures without sizes, in nested dictionaries too."""
    nested = {name: inner for name, part in figures.items() if isinstance(part, dict) and (inner := _rounded(part))}
    numbers = {name: value for name, value in figures.items() if isinstance(value, int | float) and name not in _COUNTS}
    return nested | {name: round(value, _DECIMALS) for name, value in numbers.items() if not isinstance(value, bool)}


def _numbers(measured: dict) -> dict:
    content: dict = _rounded({name: measured[name] for name in SUMS})
    for direction in DIRECTIONS:
        content[direction] = {"r@1": round(measured[direction]["r@1"], _DECIMALS)}
    if "judged" in measured:
        content["judged"] = {direction: _rounded(measured["judged"][direction]) for direction in DIRECTIONS}
    return content


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
    return pd.concat(tables or [pd.DataFrame(columns=columns)])


def occurrence(results: Results) -> pd.DataFrame:
    """run, inference, direction, n_10, items: items among the best 10 of exactly n_10 queries."""
    keys = ["run", "inference", "direction", "n_10"]
    tables = [
        result.items(direction)[["n_10"]].assign(run=result.run, inference=result.inference, direction=direction)
        for run in results.runs()
        for result in run.evaluations.values()
        for direction in DIRECTIONS
    ]
    counts = [table.value_counts(keys).sort_index().rename("items").reset_index() for table in tables]
    return pd.concat(counts or [pd.DataFrame(columns=[*keys, "items"])])
