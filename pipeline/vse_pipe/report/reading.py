"""What there is to report of all that params.yaml names, and what is not there yet."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from vse_pipe.artifacts import audit, captions, evaluation, localisation, model_files
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.core.files import read_json
from vse_pipe.project import paths
from vse_pipe.project.params.checks import EPOCH, ranked_under
from vse_pipe.project.params.schema import SweepNode
from vse_pipe.project.params.typed import Params, Run
from vse_pipe.project.registry import SCHEMES
from vse_pipe.report import results
from vse_pipe.report.results import DatasetIndex, Evaluation, Group, Results, RunResult, TrainedRun

CONFIG = "config.json"
# How the reason begins where no command would help.
UNCOMPUTED = "cannot be computed"
# What a run may have besides, and the command that makes it.
_BESIDE = (("audit", "audit"), ("localisation", "localize"))
_EVALUATED = (evaluation.METRICS, evaluation.RANKS, evaluation.OCCURRENCE)


@dataclass(frozen=True)
class Present:
    """params: without the runs, ensembles, criteria, sweeps, audits and localisations that cannot be shown, and those of data sets without captions,
    which miss nothing; inferences: those of each run and ensemble, in the order of the grid; missing: ("run hal under gm, rgm", why and how to make it) of what was left out."""

    params: Params
    inferences: dict[str, list[str]]
    missing: list[tuple[str, str]]


def present(params: Params) -> Present:
    """By the files that lie there; whether they can be used is for their readers to say."""
    inferences: dict[str, list[str]] = {}
    missing = []
    for name in params.evaluated():
        if captions.absent(paths.prepared(params.dataset(name))):
            continue
        node, moved = params.ensembles.get(name), params.transfers.get(name)
        kind = "ensemble" if node else "transfer" if moved else "run"
        lacking = [run for run in node.members if run not in inferences] if node else []
        if moved and _untrained(moved.run):  # a trained one may be of pictures without captions, and measured here
            lacking = [moved.run]
        asked = ranked_under(params, name)
        found = [one for one in asked if _is_evaluated(name, one)]
        absent = [one for one in asked if one not in found]
        if kind == "run" and (untrained := _untrained(name)):
            missing.append((f"run {name}", f"{untrained} does not exist; {_made('train', name)}"))
        elif lacking:
            missing.append((f"{kind} {name}", f"run {lacking[0]} is not there"))
        elif not found:
            missing.append((f"{kind} {name}", f"not evaluated; {_made('evaluate', name)}"))
        else:
            inferences[name] = found
            why = evaluation.read_unmeasured(paths.evaluations(name))
            missing += [(f"{kind} {name} under {one}", f"{UNCOMPUTED}: {why[one]}") for one in absent if one in why]
            if absent := [one for one in absent if one not in why]:
                made = _made("evaluate", name, f" --inference {','.join(absent)}")
                missing.append((f"{kind} {name} under {', '.join(absent)}", f"not evaluated; {made}"))
    beside = {"audits": (paths.audited, audit.METRICS), "localized": (paths.localized, localisation.METRICS)}
    there: dict[str, list[str]] = {}
    for (key, (folder, file)), (what, command) in zip(beside.items(), _BESIDE, strict=True):
        named = getattr(params.report, key)
        there[key] = [run for run in named if (folder(run) / file).is_file()]
        missing += [(f"{what} of {run}", f"not made; {_made(command, run)}") for run in named if run not in there[key]]
    return Present(_reduced(params, inferences, there), inferences, missing)


def _made(command: str, run: str, more: str = "") -> str:
    return f"make it with `vse-pipe {command} --run {run}{more}` or `dvc repro`"


def _untrained(run: str) -> str:
    """The first file of a training that is not there."""
    files = [paths.trained(run) / name for name in (model_files.HISTORY, CONFIG)]
    return next((str(path) for path in files if not path.is_file()), "")


def _is_evaluated(name: str, inference: str) -> bool:
    return all((paths.evaluated(name, inference) / file).is_file() for file in _EVALUATED)


def _reduced(params: Params, inferences: dict[str, list[str]], made: dict[str, list[str]]) -> Params:
    used = {one for found in inferences.values() for one in found}
    sweeps = {name: _sweep(params, node, inferences) for name, node in params.report.sweeps.items()}
    report = {**made, "sweeps": {name: node for name, node in sweeps.items() if node.runs}}
    grid = {"inferences": [one for one in params.grid.inferences if one in used]}
    return replace(
        params,
        grid=params.grid.model_copy(update=grid),
        runs={name: run for name, run in params.runs.items() if name in inferences},
        groups={name: there for name, models in params.groups.items() if (there := _there(models, inferences))},
        ensembles={name: node for name, node in params.ensembles.items() if name in inferences},
        transfers={name: node for name, node in params.transfers.items() if name in inferences},
        report=params.report.model_copy(update=report),
    )


def _there(models: tuple[str, ...], inferences: dict[str, list[str]]) -> tuple[str, ...]:
    return tuple(one for one in models if one in inferences)


def _sweep(params: Params, node: SweepNode, inferences: dict[str, list[str]]) -> SweepNode:
    """Without the runs that lack its criterion."""

    def shown(run: str) -> bool:
        models = _there(params.models(run), inferences)
        return bool(models) and (node.x == EPOCH or all(node.inference in inferences[one] for one in models))

    named = {"runs": node.runs, "baselines": node.baselines}
    return node.model_copy(update={key: list(filter(shown, runs)) for key, runs in named.items()})


@dataclass(frozen=True)
class RepeatedEvaluation(Evaluation):
    """metrics: the means over the seeds, with intervals that hold both sources of chance; the tables are those of the first
    seed. deviations: standard deviation between the seeds, by the keys of metrics; empty of a single seed."""

    deviations: dict = field(default_factory=dict)


def repeated(name: str, runs: Sequence[RunResult], params: Params) -> RunResult:
    """runs: its models; criteria that one of them lacks are left out. Raises InputError where nothing is left,
    or they are of different data."""
    first = runs[0]
    common = [one for one in first.evaluations if all(one in run.evaluations for run in runs)]
    if not common:
        raise InputError(f"run {name}: its seeds have no criterion in common; run `vse-pipe evaluate --run {name}`")
    if len({run.evaluations[one].metrics.get("data") for run in runs for one in common}) > 1:
        raise InputError(
            f"run {name}: its seeds were evaluated on different data; run `vse-pipe evaluate --run {name}` again"
        )
    found: dict[str, Evaluation] = {
        one: _repeated_evaluation(name, [run.evaluations[one] for run in runs], params) for one in common
    }
    return RunResult(name, first.params, None, found, row=first.row, repetitions=tuple(runs), moved=first.moved)


def _repeated_evaluation(name: str, ones: list[Evaluation], params: Params) -> RepeatedEvaluation:
    first, documents = ones[0], [one.metrics for one in ones]
    metrics = mean(documents)
    metrics.pop("intervals", None)
    if params.evaluate.resamples > 1:
        metrics["intervals"] = _intervals(ones, params.evaluate.resamples, params.seed)
    deviations = _numbers(documents, _deviation) if len(ones) > 1 else {}
    return RepeatedEvaluation(
        name, first.inference, metrics, first.ranks, first.occurrence, first.relaxation, deviations
    )


def _intervals(ones: list[Evaluation], resamples: int, seed: int) -> dict:
    # Numba takes a second to import, which reports without seeds need not wait for.
    from vse_pipe.ranking.comparison import spreads
    from vse_pipe.ranking.intervals import Figures, nest, within

    found: dict = {}
    for address, spread in spreads([Figures.of(one.ranks, one.occurrence) for one in ones], resamples, seed).items():
        nest(found, address, within(address, spread.interval()))
    return found


def localised(results: Results, run: RunResult) -> dict | None:
    """What localize has measured, of a run with seeds the mean of its models."""
    found = [results.localised[one.name].metrics for one in run.repetitions or (run,) if one.name in results.localised]
    return mean(found) if found else None


def mean(documents: Sequence[dict]) -> dict:
    """Of every number, by the keys of the documents; counts that agree stay whole, what else they hold is the first one's."""
    return _merged(documents[0], _numbers(documents, _mean))


def _mean(values: list) -> float | None:
    """None where a figure is not defined for one of them."""
    return None if None in values else statistics.fmean(values)


def _deviation(values: list) -> float | None:
    return None if None in values else statistics.stdev(values)


def _numbers(documents: Sequence[dict], of: Callable[[list], float | None]) -> dict:
    """``of`` the values of every number that all documents have, null among them."""
    found: dict = {}
    for key, value in documents[0].items():
        values = [one.get(key) for one in documents]
        below = [one for one in values if isinstance(one, dict)]
        if isinstance(value, dict) and len(below) == len(values):
            found[key] = _numbers(below, of)
        elif set(map(type, values)) - {int, float, type(None)} or all(one is None for one in values):
            continue
        elif all(key in document for document in documents):
            found[key] = of(values)
    return found


def _merged(first: dict, means: dict) -> dict:
    found = dict(first)
    for key, value in means.items():
        whole = isinstance(first[key], int) and value == first[key]
        found[key] = _merged(first[key], value) if isinstance(value, dict) else first[key] if whole else value
    return found


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
    return Results(params, groups, results.read_audit(params), there.missing, results.read_localisation(params))


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
    return results.catalogue(paths.prepared(dataset), *origins)


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
