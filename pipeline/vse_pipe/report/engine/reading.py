"""Read what params.yaml names through the artefact readers; never what happens to lie on disk."""

import math

import numpy as np
import pandas as pd

from vse_pipe.artifacts import evaluation, model_files
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.core.files import read_json
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params, Run
from vse_pipe.project.registry import SCHEMES
from vse_pipe.report.engine import audits, localised
from vse_pipe.report.engine.present import CONFIG, present
from vse_pipe.report.engine.repeated import repeated
from vse_pipe.report.engine.results import DatasetIndex, Evaluation, Group, Results, RunResult, TrainedRun

_SHOWN = 5
_NEEDED = ("r@1", "r@5", "r@10", "skew@1", "skew@5", "skew@10")
_CURVES = ("epoch", "loss", "val_rsum")


def read(params: Params) -> Results:
    """What there is of everything params names, nothing else; no group where no data set has captions. Raises InputError for what
    is not finite or measured otherwise than params.yaml asks for, or where nothing is there that could be, IntegrityError for what was
    made from another model or other data than there are now, UsageError when params names no run."""
    if not params.runs:
        raise UsageError("params.yaml runs: there is no run to report on")
    there, all_runs = present(params), params.runs
    if there.missing and not there.inferences:
        raise InputError("\n".join(told(there.missing)))
    params = there.params
    evaluations = {
        name: {inference: _evaluation(params, name, inference) for inference in found}
        for name, found in there.inferences.items()
    }
    for name, inferences in there.inferences.items():
        evaluation.require_current(there.params, name, inferences)
    by_dataset: dict[str, list[RunResult]] = {}
    trained = {
        name: TrainedRun(
            name,
            run,
            _history(name, run),
            evaluations[name],
            row=run.row,
            config=read_json(paths.trained(name) / CONFIG),
        )
        for name, run in params.runs.items()
    }
    for name in params.named(params.runs):
        models = [trained[one] for one in params.models(name)]
        found = repeated(name, models, params) if name in params.groups else models[0]
        by_dataset.setdefault(models[0].params.dataset, []).append(found)
    for name, node in params.ensembles.items():
        by_dataset[params.dataset(name)].append(RunResult(name, None, None, evaluations[name], node.members, node.row))
    moved = {
        name: RunResult(name, all_runs[node.run], None, evaluations[name], moved=True)
        for name, node in params.transfers.items()
    }
    for name in params.named(moved):
        elsewhere = [moved[one] for one in params.models(name)]
        found = repeated(name, elsewhere, params) if name in params.groups else elsewhere[0]
        by_dataset.setdefault(params.dataset(elsewhere[0].name), []).append(found)
    groups = [Group(_catalogue(dataset, runs), runs) for dataset, runs in by_dataset.items()]
    return Results(params, groups, audits.read(params), there.missing, localised.read(params))


def _catalogue(dataset: str, runs: list[RunResult]) -> DatasetIndex:
    """What the runs' queries and items are."""
    models = [one for run in runs for one in run.repetitions or (run,)]
    origins = [
        evaluation.origin(
            paths.evaluated(model.name, name), one.metrics, f"run `vse-pipe evaluate --run {model.name}` again"
        )
        for model in models
        for name, one in model.evaluations.items()
    ]
    return localised.catalogue(paths.prepared(dataset), *origins)


def told(missing: list[tuple[str, str]]) -> list[str]:
    """A line each, of many the first."""
    lines = [f"{what}: {why}" for what, why in missing[:_SHOWN]]
    more = len(missing) - len(lines)
    return lines + [f"and {more} more; `dvc repro` makes them all"] * bool(more)


def _evaluation(params: Params, run: str, inference: str) -> Evaluation:
    folder = paths.evaluated(run, inference)
    metrics = evaluation.read_metrics(folder)
    problems = _problems(metrics, params)
    node = params.ensembles.get(run)
    if node and not node.tells(metrics.get("ensemble", {})):
        problems.append(f"ensemble is {metrics.get('ensemble')}, not what params.yaml ensembles.{run} says")
    if (moved := params.transfers.get(run)) and not moved.tells(metrics.get("transfer")):
        problems.append(
            f"transfer is {metrics.get('transfer')}, not what params.yaml transfers.{run} says; embed it anew"
        )
    if problems:
        advice = f"run `vse-pipe evaluate --run {run} --inference {inference}` again"
        raise InputError("\n".join(f"{folder / evaluation.METRICS}: {problem}; {advice}" for problem in problems))
    tables = (evaluation.read_ranks, evaluation.read_occurrence, evaluation.read_relaxation)
    return Evaluation(run, inference, metrics, *(read_table(folder) for read_table in tables))


def _problems(metrics: dict, params: Params) -> list[str]:
    """Missing or non-finite figures, and figures measured under another protocol than params.yaml now asks for."""
    figures = {name: metrics.get(name) for name in ("rsum", "hs_sum")}
    # Skewness of counts that are all alike is not defined.
    undefined = {"hs_sum"} if "hs_sum" in metrics else set()
    for direction in evaluation.DIRECTIONS:
        side = metrics.get(direction)
        measured = side if isinstance(side, dict) else {}
        names = [*_NEEDED, *[name for name, value in measured.items() if isinstance(value, int | float)]]
        figures |= {f"{direction}.{name}": measured.get(name) for name in names}
        undefined |= {f"{direction}.{name}" for name in measured if name.startswith("skew@")}
    found = [
        f"{name} is {value!r}, expected a finite number"
        for name, value in figures.items()
        if not _finite(value) and not (value is None and name in undefined)
    ]
    for name in ("split", "protocol", "ties"):
        wanted = getattr(params.evaluate, name)
        if metrics.get(name) != wanted:
            found.append(f"{name} is {metrics.get(name)!r}, params.yaml evaluate.{name} is {wanted!r}")
    if not isinstance(metrics.get("bank"), str):
        found.append(f"bank is {metrics.get('bank')!r}, expected the name of the query bank")
    found += [
        f"intervals.{name} is {ends!r}, expected two finite numbers"
        for name, ends in _ends(metrics.get("intervals", {}))
        if ends is not None and not (isinstance(ends, list) and len(ends) == 2 and all(map(_finite, ends)))
    ]
    if not isinstance(metrics.get("transductive"), bool):
        found.append(f"transductive is {metrics.get('transductive')!r}, expected true or false")
    return found


def _ends(intervals: dict, prefix: str = "") -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for name, value in intervals.items():
        found += _ends(value, f"{prefix}{name}.") if isinstance(value, dict) else [(prefix + name, value)]
    return found


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _history(run: str, node: Run) -> pd.DataFrame:
    """Without epochs of a run that trains nothing, and of no other."""
    table = model_files.read_history(paths.trained(run))
    problem = None
    if table.empty and not SCHEMES.traits(node.scheme.name).trains:
        return table
    if table.empty:
        problem = "no epochs"
    elif not np.isfinite(table[list(_CURVES)].to_numpy(dtype=float)).all():
        problem = f"{', '.join(_CURVES)} must be finite numbers in every row"
    if problem:
        raise InputError(
            f"{paths.trained(run) / model_files.HISTORY}: {problem}; run `vse-pipe train --run {run}` again"
        )
    return table
