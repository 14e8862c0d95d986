"""Read the outputs that params.yaml names, and list those that are missing."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from vse_pipe.artifacts import audit, captions, evaluation, localisation, model_files
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.core.files import read_json
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EPOCH, SweepNode
from vse_pipe.project.params.typed import Params, Run
from vse_pipe.project.registry import SCHEMES
from vse_pipe.report import results
from vse_pipe.report.results import DatasetIndex, Evaluation, Group, Results, RunResult, TrainedRun

CONFIG = "config.json"
# A reason that begins with this has no command that helps.
UNCOMPUTED = "cannot be computed"
_EVALUATED = (evaluation.METRICS, evaluation.RANKS, evaluation.OCCURRENCE)


@dataclass(frozen=True)
class Present:
    """params: reduced to the entries that the page can show. inferences: the evaluated criteria of each run and
    ensemble, in the order of the grid. missing: each missing output, as "run hal under gm, rgm", with the reason and
    the command that makes it; data sets without captions miss nothing."""

    params: Params
    inferences: dict[str, list[str]]
    missing: list[tuple[str, str]]


def present(params: Params) -> Present:
    """The entries whose files exist. The readers of the files check their contents."""
    inferences: dict[str, list[str]] = {}
    missing = []
    for name in params.evaluated():
        if captions.absent(paths.prepared(params.dataset(name))):
            continue
        node, moved = params.ensembles.get(name), params.transfers.get(name)
        kind = "ensemble" if node else "transfer" if moved else "run"
        lacking = [run for run in node.members if run not in inferences] if node else []
        # A trained run on pictures without captions is measured through its transfers only.
        if moved and _untrained(moved.run):
            lacking = [moved.run]
        criteria = params.ranked_under(name)
        folders = {criterion: paths.evaluated(name, criterion) for criterion in criteria}
        evaluated = [key for key, folder in folders.items() if all((folder / file).is_file() for file in _EVALUATED)]
        absent = [criterion for criterion in criteria if criterion not in evaluated]
        if kind == "run" and (untrained := _untrained(name)):
            missing.append((f"run {name}", f"{untrained} does not exist; {_advice('train', name)}"))
        elif lacking:
            missing.append((f"{kind} {name}", f"run {lacking[0]} is not there"))
        elif not evaluated:
            missing.append((f"{kind} {name}", f"not evaluated; {_advice('evaluate', name)}"))
        else:
            inferences[name] = evaluated
            reasons = evaluation.read_unmeasured(paths.evaluations(name))
            missing += [
                (f"{kind} {name} under {criterion}", f"{UNCOMPUTED}: {reasons[criterion]}")
                for criterion in absent
                if criterion in reasons
            ]
            if absent := [criterion for criterion in absent if criterion not in reasons]:
                advice = _advice("evaluate", name, f" --inference {','.join(absent)}")
                missing.append((f"{kind} {name} under {', '.join(absent)}", f"not evaluated; {advice}"))
    extras = (
        ("audits", "audit", "audit", paths.audited, audit.METRICS),
        ("localized", "localisation", "localize", paths.localized, localisation.METRICS),
    )
    extra: dict[str, Any] = {}
    for key, kind, command, folder, file in extras:
        named = getattr(params.report, key)
        extra[key] = [run for run in named if (folder(run) / file).is_file()]
        missing += [
            (f"{kind} of {run}", f"not made; {_advice(command, run)}") for run in named if run not in extra[key]
        ]
    extra["cleaning"], unmade = _audited_pairs(params)
    return Present(_reduced(params, inferences, extra), inferences, missing + unmade)


def _audited_pairs(params: Params) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The entries of report.cleaning whose audit exists, and the missing ones as ``Present`` has them."""
    entries = params.report.cleaning
    present = {
        noise: dataset
        for noise, dataset in entries.items()
        if (paths.audited_pairs(dataset, noise) / audit.METRICS).is_file()
    }
    advice = "not made; make it with `vse-pipe audit --noise {}` or `dvc repro`"
    return present, [(f"audit of pairs {noise}", advice.format(noise)) for noise in entries if noise not in present]


def _advice(command: str, run: str, more: str = "") -> str:
    return f"make it with `vse-pipe {command} --run {run}{more}` or `dvc repro`"


def _untrained(run: str) -> str:
    """The first file of the training that does not exist; "" when all exist."""
    files = [paths.trained(run) / name for name in (model_files.HISTORY, CONFIG)]
    return next((str(path) for path in files if not path.is_file()), "")


def _reduced(params: Params, inferences: dict[str, list[str]], extras: dict[str, Any]) -> Params:
    used = {criterion for criteria in inferences.values() for criterion in criteria}
    sweeps = {name: _sweep(params, node, inferences) for name, node in params.report.sweeps.items()}
    report = {**extras, "sweeps": {name: node for name, node in sweeps.items() if node.runs}}
    grid = {"inferences": [criterion for criterion in params.grid.inferences if criterion in used]}
    return replace(
        params,
        grid=params.grid.model_copy(update=grid),
        runs={name: run for name, run in params.runs.items() if name in inferences},
        groups={
            name: subset for name, models in params.groups.items() if (subset := _evaluated_models(models, inferences))
        },
        ensembles={name: node for name, node in params.ensembles.items() if name in inferences},
        transfers={name: node for name, node in params.transfers.items() if name in inferences},
        report=params.report.model_copy(update=report),
    )


def _evaluated_models(models: tuple[str, ...], inferences: dict[str, list[str]]) -> tuple[str, ...]:
    return tuple(model for model in models if model in inferences)


def _sweep(params: Params, node: SweepNode, inferences: dict[str, list[str]]) -> SweepNode:

    def is_evaluated(run: str) -> bool:
        models = _evaluated_models(params.models(run), inferences)
        return bool(models) and (node.x == EPOCH or all(node.inference in inferences[model] for model in models))

    named = {"runs": node.runs, "baselines": node.baselines}
    return node.model_copy(update={key: list(filter(is_evaluated, runs)) for key, runs in named.items()})


@dataclass(frozen=True)
class RepeatedEvaluation(Evaluation):
    """metrics: means over the seeds; their intervals cover the draw of images and the draw of seeds. The tables are
    those of the first seed. deviations: standard deviation over the seeds, with the keys of metrics; empty for a single
    seed."""

    deviations: dict = field(default_factory=dict)


def repeated(name: str, runs: Sequence[RunResult], params: Params) -> RunResult:
    """The mean result of ``runs``, the models of one run with seeds, under the criteria that all of them have.

    Raises InputError when they share no criterion or were evaluated on different data."""
    first = runs[0]
    common = [criterion for criterion in first.evaluations if all(criterion in run.evaluations for run in runs)]
    if not common:
        raise InputError(f"run {name}: its seeds have no criterion in common; run `vse-pipe evaluate --run {name}`")
    again = f"run `vse-pipe evaluate --run {name}` again"
    if len({run.evaluations[criterion].metrics.get("data") for run in runs for criterion in common}) > 1:
        raise InputError(f"run {name}: its seeds were evaluated on different data; {again}")
    evaluations: dict[str, Evaluation] = {
        key: _repeated_evaluation(name, [run.evaluations[key] for run in runs], params) for key in common
    }
    return RunResult(name, first.params, None, evaluations, row=first.row, repetitions=tuple(runs), moved=first.moved)


def _repeated_evaluation(name: str, evaluations: list[Evaluation], params: Params) -> RepeatedEvaluation:
    first, documents = evaluations[0], [result.metrics for result in evaluations]
    metrics = mean(documents)
    metrics.pop("intervals", None)
    if params.evaluate.resamples > 1:
        metrics["intervals"] = _intervals(evaluations, params.evaluate.resamples, params.seed)
    deviations = _numbers(documents, statistics.stdev) if len(evaluations) > 1 else {}
    tables = first.ranks, first.occurrence, first.relaxation
    return RepeatedEvaluation(name, first.inference, metrics, *tables, deviations)


def _intervals(evaluations: list[Evaluation], resamples: int, seed: int) -> dict:
    # Numba takes a second to import; reports without seeds do not need it.
    from vse_pipe.ranking.comparison import spreads
    from vse_pipe.ranking.intervals import Figures, nest, within

    intervals: dict = {}
    for address, spread in spreads(
        [Figures.from_tables(result.ranks, result.occurrence) for result in evaluations], resamples, seed
    ).items():
        nest(intervals, address, within(address, spread.interval()))
    return intervals


def localised(results: Results, run: RunResult) -> dict | None:
    """The metrics of localize for a run; for a run with seeds, the mean over its models."""
    documents = [
        results.localised[model.name].metrics for model in run.repetitions or (run,) if model.name in results.localised
    ]
    return mean(documents) if documents else None


def mean(documents: Sequence[dict]) -> dict:
    """The mean of every number. Counts that agree stay integers; all other content comes from the first document."""
    return _merged(documents[0], _numbers(documents, statistics.fmean))


def _numbers(documents: Sequence[dict], statistic: Callable[[list], float]) -> dict:
    """``statistic`` of every number that all documents have; None when one of them has null there."""
    numbers: dict = {}
    for key, value in documents[0].items():
        values = [document.get(key) for document in documents]
        below = [part for part in values if isinstance(part, dict)]
        if isinstance(value, dict) and len(below) == len(values):
            numbers[key] = _numbers(below, statistic)
        elif set(map(type, values)) - {int, float, type(None)} or all(part is None for part in values):
            continue
        elif all(key in document for document in documents):
            numbers[key] = None if None in values else statistic(values)
    return numbers


def _merged(first: dict, means: dict) -> dict:
    merged = dict(first)
    for key, value in means.items():
        is_same_count = isinstance(first[key], int) and value == first[key]
        merged[key] = _merged(first[key], value) if isinstance(value, dict) else first[key] if is_same_count else value
    return merged


_SHOWN = 5
_NEEDED = ("r@1", "r@5", "r@10", "skew@1", "skew@5", "skew@10")
_CURVES = ("epoch", "loss", "val_rsum")


def read(params: Params) -> Results:
    """The outputs that exist for the entries of params; no groups when no data set has captions.

    Raises UsageError when params names no run, InputError when no output exists, a figure is not finite or was measured
    under other settings than params.yaml has, IntegrityError when an output was made from another model or from other
    data than the present."""
    if not params.runs:
        raise UsageError("params.yaml runs: there is no run to report on")
    available, all_runs = present(params), params.runs
    if available.missing and not available.inferences:
        raise InputError(*missing_lines(available.missing))
    params = available.params
    evaluations = {
        name: {inference: _evaluation(params, name, inference) for inference in criteria}
        for name, criteria in available.inferences.items()
    }
    for name, inferences in available.inferences.items():
        evaluation.require_current(params, name, inferences)
    by_dataset: dict[str, list[RunResult]] = {}
    trained = {
        name: TrainedRun(name, run, _history(name, run), evaluations[name], row=run.row, config=config)
        for name, run in params.runs.items()
        for config in [read_json(paths.trained(name) / CONFIG)]
    }
    for name in params.named(params.runs):
        models = [trained[model] for model in params.models(name)]
        method = repeated(name, models, params) if name in params.groups else models[0]
        by_dataset.setdefault(models[0].params.dataset, []).append(method)
    for name, node in params.ensembles.items():
        by_dataset[params.dataset(name)].append(RunResult(name, None, None, evaluations[name], node.members, node.row))
    moved = {
        name: RunResult(name, all_runs[node.run], None, evaluations[name], moved=True)
        for name, node in params.transfers.items()
    }
    for name in params.named(moved):
        transfers = [moved[model] for model in params.models(name)]
        method = repeated(name, transfers, params) if name in params.groups else transfers[0]
        by_dataset.setdefault(params.dataset(transfers[0].name), []).append(method)
    groups = [Group(_catalogue(dataset, runs), runs) for dataset, runs in by_dataset.items()]
    audits = {run: results.read_audit(params, run) for run in params.report.audits}
    catalogues = {group.catalogue.name: group.catalogue for group in groups}
    cleaning = {noise: results.read_pair_audit(params, noise, catalogues) for noise in params.report.cleaning}
    localisations = results.read_localisation(params)
    return Results(params, groups, audits, available.missing, localisations, cleaning, _unconverged(params))


def _unconverged(params: Params) -> dict[str, list[str]]:
    """By name of params.yaml, and of its seeds: why the trainings below it have not converged."""
    names = [*params.evaluated(), *params.groups]
    files = {name: [paths.trained(run) / CONFIG for run in params.trainings(name)] for name in names}
    reasons = {
        name: [model_files.unconverged(read_json(path)) for path in configs if path.is_file()]
        for name, configs in files.items()
    }
    return {name: sorted({*filter(None, found)}) for name, found in reasons.items() if any(found)}


def _catalogue(dataset: str, runs: list[RunResult]) -> DatasetIndex:
    origins = [
        evaluation.origin(paths.evaluated(model.name, name), measured.metrics)
        for run in runs
        for model in run.repetitions or (run,)
        for name, measured in model.evaluations.items()
    ]
    return results.catalogue(paths.prepared(dataset), *origins)


def missing_lines(missing: list[tuple[str, str]]) -> list[str]:
    """One line an output; of many, the first."""
    lines = [f"{subject}: {reason}" for subject, reason in missing[:_SHOWN]]
    more = len(missing) - len(lines)
    return lines + [f"and {more} more; `dvc repro` makes them all"] * bool(more)


def _evaluation(params: Params, run: str, inference: str) -> Evaluation:
    folder = paths.evaluated(run, inference)
    metrics = evaluation.read_metrics(folder)
    problems = _problems(metrics, params)
    node = params.ensembles.get(run)
    if node and metrics.get("ensemble") != node.entry:
        problems.append(f"ensemble is {metrics.get('ensemble')}, not what params.yaml ensembles.{run} says")
    if (moved := params.transfers.get(run)) and not moved.tells(metrics.get("transfer")):
        recorded = metrics.get("transfer")
        problems.append(f"transfer is {recorded}, not what params.yaml transfers.{run} says; embed it anew")
    if problems:
        advice = f"run `vse-pipe evaluate --run {run} --inference {inference}` again"
        raise InputError(*(f"{folder / evaluation.METRICS}: {problem}; {advice}" for problem in problems))
    tables = (evaluation.read_ranks, evaluation.read_occurrence, evaluation.read_relaxation)
    return Evaluation(run, inference, metrics, *(read_table(folder) for read_table in tables))


def _problems(metrics: dict, params: Params) -> list[str]:
    """Missing or non-finite figures, and figures measured under another protocol than params.yaml has."""
    figures = {name: metrics.get(name) for name in ("rsum", "hs_sum")}
    # Equal counts have no skewness.
    undefined = {"hs_sum"} if "hs_sum" in metrics else set()
    for direction in evaluation.DIRECTIONS:
        side = metrics.get(direction)
        measured = side if isinstance(side, dict) else {}
        names = [*_NEEDED, *[name for name, value in measured.items() if isinstance(value, int | float)]]
        figures |= {f"{direction}.{name}": measured.get(name) for name in names}
        undefined |= {f"{direction}.{name}" for name in measured if name.startswith("skew@")}
    problems = [
        f"{name} is {value!r}, expected a finite number"
        for name, value in figures.items()
        if not _finite(value) and not (value is None and name in undefined)
    ]
    for name in ("split", "protocol", "ties"):
        setting = getattr(params.evaluate, name)
        if metrics.get(name) != setting:
            problems.append(f"{name} is {metrics.get(name)!r}, params.yaml evaluate.{name} is {setting!r}")
    if not isinstance(metrics.get("bank"), str):
        problems.append(f"bank is {metrics.get('bank')!r}, expected the name of the query bank")
    problems += [
        f"intervals.{name} is {ends!r}, expected two finite numbers"
        for name, ends in _ends(metrics.get("intervals", {}))
        if ends is not None and not (isinstance(ends, list) and len(ends) == 2 and all(map(_finite, ends)))
    ]
    if not isinstance(metrics.get("transductive"), bool):
        problems.append(f"transductive is {metrics.get('transductive')!r}, expected true or false")
    return problems


def _ends(intervals: dict, prefix: str = "") -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = []
    for name, value in intervals.items():
        pairs += _ends(value, f"{prefix}{name}.") if isinstance(value, dict) else [(prefix + name, value)]
    return pairs


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _history(run: str, node: Run) -> pd.DataFrame:
    """The epochs of a run; none when its scheme does not train. Raises InputError for missing or infinite figures."""
    table = model_files.read_history(paths.trained(run))
    problem = None
    if table.empty and not SCHEMES.traits(node.scheme.name).trains:
        return table
    if table.empty:
        problem = "no epochs"
    elif not np.isfinite(table[list(_CURVES)].to_numpy(dtype=float)).all():
        problem = f"{', '.join(_CURVES)} must be finite numbers in every row"
    if problem:
        path = paths.trained(run) / model_files.HISTORY
        raise InputError(f"{path}: {problem}; run `vse-pipe train --run {run}` again")
    return table
