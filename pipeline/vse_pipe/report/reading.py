"""Read the outputs that params.yaml names, and list those that are missing."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from vse_pipe.artifacts import audit, captions, evaluation, identity, model_files
from vse_pipe.artifacts.catalogue import Catalogue
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.core.files import read_json
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EPOCH, SweepNode
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.comparison import FILES, spreads
from vse_pipe.ranking.intervals import Figures, nest, within
from vse_pipe.report import results
from vse_pipe.report.results import SUMS, Evaluation, Group, Results, RunResult, TrainedRun

# A reason that begins with this has no command that helps.
UNCOMPUTED = "cannot be computed"


@dataclass(frozen=True)
class Present:
    """params: reduced to the entries that the page can show. inferences: the evaluated criteria of each
    run and ensemble, in the order of the grid. missing: each missing output, as "run hal under gm, rgm",
    with the reason and the command that makes it; data sets without captions miss nothing."""

    params: Params
    inferences: dict[str, list[str]]
    missing: list[tuple[str, str]]


def present(params: Params) -> Present:
    """The entries whose files exist. The readers of the files check their contents."""
    inferences: dict[str, list[str]] = {}
    missing = []
    for name in params.evaluated():
        if not captions.absent(paths.prepared(params.dataset(name))):
            criteria, lacking = _ranked(params, name, inferences)
            inferences |= {name: criteria} if criteria else {}
            missing += lacking
    extras: dict[str, Any] = {}
    for key, kind, option, folder in _EXTRAS:
        named = getattr(params.report, key)
        present_names = [name for name in named if (folder(params, name) / audit.METRICS).is_file()]
        extras[key] = {name: named[name] for name in present_names} if isinstance(named, dict) else present_names
        missing += [
            (f"{kind} {name}", f"not made; {_advice(option, name)}") for name in named if name not in present_names
        ]
    return Present(_reduced(params, inferences, extras), inferences, missing)


# Key under ``report``, kind, the command that makes it, and its folder.
_EXTRAS: tuple[tuple[str, str, str, Callable[[Params, str], Path]], ...] = (
    ("audits", "audit of", "audit --run", lambda params, run: paths.audited(run)),
    ("localized", "localisation of", "localize --run", lambda params, run: paths.localized(run)),
    (
        "cleaning",
        "audit of pairs",
        "audit --noise",
        lambda params, noise: paths.audited_pairs(params.report.cleaning[noise], noise),
    ),
)


def _ranked(params: Params, name: str, inferences: dict[str, list[str]]) -> tuple[list[str], list[tuple[str, str]]]:
    """The criteria that ranked a run, ensemble or transfer, and what is missing. inferences: of the runs
    before it."""
    ensemble, moved = params.ensembles.get(name), params.transfers.get(name)
    kind = "ensemble" if ensemble else "transfer" if moved else "run"
    # A trained run on pictures without captions is measured through its transfers only.
    trained = moved.run if moved else name if ensemble is None else None
    lacking = [run for run in ensemble.members if run not in inferences] if ensemble else []
    if trained is not None and (absent := _untrained(trained)):
        reason = f"run {trained} is not there" if moved else f"{absent} does not exist; {_advice('train --run', name)}"
        return [], [(f"{kind} {name}", reason)]
    if lacking:
        return [], [(f"{kind} {name}", f"run {lacking[0]} is not there")]
    wanted_criteria = params.ranked_under(name)
    folders = {criterion: paths.evaluated(name, criterion) for criterion in wanted_criteria}
    criteria = [key for key, folder in folders.items() if all((folder / file).is_file() for file in FILES)]
    if not criteria:
        return [], [(f"{kind} {name}", f"not evaluated; {_advice('evaluate --run', name)}")]
    reasons = evaluation.read_unmeasured(paths.evaluations(name))
    absent_criteria = [criterion for criterion in wanted_criteria if criterion not in criteria]
    missing = [
        (f"{kind} {name} under {criterion}", f"{UNCOMPUTED}: {reasons[criterion]}")
        for criterion in absent_criteria
        if criterion in reasons
    ]
    if unevaluated := [criterion for criterion in absent_criteria if criterion not in reasons]:
        advice = _advice("evaluate --run", f"{name} --inference {','.join(unevaluated)}")
        missing.append((f"{kind} {name} under {', '.join(unevaluated)}", f"not evaluated; {advice}"))
    return criteria, missing


def _advice(command: str, name: str) -> str:
    return f"make it with `vse-pipe {command} {name}` or `dvc repro`"


def _untrained(run: str) -> str:
    """The first file of the training that does not exist; "" when all exist."""
    files = [paths.trained(run) / name for name in (model_files.HISTORY, model_files.CONFIG)]
    return next((str(path) for path in files if not path.is_file()), "")


def _reduced(params: Params, inferences: dict[str, list[str]], extras: dict[str, Any]) -> Params:
    def evaluated(nodes: dict) -> dict:
        return {name: node for name, node in nodes.items() if name in inferences}

    used = {criterion for criteria in inferences.values() for criterion in criteria}
    groups = {name: tuple(model for model in models if model in inferences) for name, models in params.groups.items()}
    sweeps = {name: _sweep(params, node, inferences) for name, node in params.report.sweeps.items()}
    report = {**extras, "sweeps": {name: node for name, node in sweeps.items() if node.runs}}
    grid = {"inferences": [criterion for criterion in params.grid.inferences if criterion in used]}
    return replace(
        params,
        grid=params.grid.model_copy(update=grid),
        runs=evaluated(params.runs),
        groups={name: models for name, models in groups.items() if models},
        ensembles=evaluated(params.ensembles),
        transfers=evaluated(params.transfers),
        report=params.report.model_copy(update=report),
    )


def _sweep(params: Params, node: SweepNode, inferences: dict[str, list[str]]) -> SweepNode:
    def is_evaluated(run: str) -> bool:
        criteria = [inferences[model] for model in params.models(run) if model in inferences]
        return bool(criteria) and (node.x == EPOCH or all(node.inference in names for names in criteria))

    named = {"runs": node.runs, "baselines": node.baselines}
    return node.model_copy(update={key: list(filter(is_evaluated, runs)) for key, runs in named.items()})


def repeated(name: str, models: Sequence[RunResult], params: Params) -> RunResult:
    """The mean result of the models of one run with seeds, under the criteria that all of them have.
    Raises InputError when they share no criterion."""
    first = models[0]
    common = [criterion for criterion in first.evaluations if all(criterion in run.evaluations for run in models)]
    if not common:
        raise InputError(f"run {name}: its seeds have no criterion in common; run `vse-pipe evaluate --run {name}`")
    evaluations = {key: _over_seeds(name, [run.evaluations[key] for run in models], params) for key in common}
    return RunResult(name, first.params, None, evaluations, row=first.row, repetitions=tuple(models), moved=first.moved)


def _over_seeds(name: str, evaluations: list[Evaluation], params: Params) -> Evaluation:
    """The tables are those of the first seed."""
    documents = [result.metrics for result in evaluations]
    intervals: dict = {}
    if params.evaluate.resamples > 1:
        figures = [Figures.from_tables(result.ranks, result.occurrence) for result in evaluations]
        for address, spread in spreads(figures, params.evaluate.resamples, params.seed).items():
            nest(intervals, address, within(address, spread.interval()))
    sums = {name: [document[name] for document in documents] for name in SUMS}
    deviations = {
        name: statistics.stdev(values) for name, values in sums.items() if len(values) > 1 and None not in values
    }
    metrics = mean(documents) | {"intervals": intervals}
    return replace(evaluations[0], run=name, metrics=metrics, deviations=deviations)


def localised(results: Results, run: RunResult) -> dict | None:
    """The metrics of localize for a run; for a run with seeds, the mean over its models."""
    names = [model.name for model in run.repetitions or (run,)]
    documents = [results.localised[name].metrics for name in names if name in results.localised]
    return mean(documents) if documents else None


def mean(documents: Sequence[dict]) -> dict:
    """The first document with the mean of every number that all documents have; None where one has none.
    Counts that agree stay integers."""
    merged = dict(documents[0])
    for key in documents[0]:
        values = [document[key] for document in documents if key in document]
        types = set(map(type, values))
        if len(values) < len(documents) or not types <= {int, float, dict, type(None)}:
            continue
        if types == {dict}:
            merged[key] = mean(values)
        elif None in values:
            merged[key] = None
        elif dict not in types and len(set(values)) > 1:
            merged[key] = statistics.fmean(values)
    return merged


_SHOWN = 5


def read(params: Params) -> Results:
    """The outputs that exist for the entries of params; no groups when no data set has captions.

    Raises UsageError when params names no run, InputError when no output exists or one was measured under
    other settings than params.yaml has, IntegrityError when an output was made from another model or from
    other data than the present."""
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
    for name in available.inferences:
        out = paths.evaluations(name)
        identity.require_current(out)
        trained_by = [paths.trained(run) for run in params.trainings(name)]
        identity.require_current(out, (), [paths.prepared(params.dataset(name)), *trained_by])
    configs = _configs(params)
    models: dict[str, RunResult] = {
        name: TrainedRun(name, run, _history(name), evaluations[name], row=run.row, config=configs[name])
        for name, run in params.runs.items()
    }
    for name, node in params.ensembles.items():
        models[name] = RunResult(name, None, None, evaluations[name], node.members, node.row)
    for name, moved in params.transfers.items():
        models[name] = RunResult(name, all_runs[moved.run], None, evaluations[name], moved=True)
    by_dataset: dict[str, list[RunResult]] = {}
    for name in [*params.named(params.runs), *params.ensembles, *params.named(params.transfers)]:
        trained = [models[model] for model in params.models(name)]
        method = repeated(name, trained, params) if name in params.groups else trained[0]
        by_dataset.setdefault(params.dataset(trained[0].name), []).append(method)
    groups = [Group(Catalogue.read(paths.prepared(dataset)), runs) for dataset, runs in by_dataset.items()]
    catalogues = {group.catalogue.dataset: group.catalogue for group in groups}
    return Results(
        params,
        groups,
        {run: results.read_audit(params, run) for run in params.report.audits},
        available.missing,
        results.read_localisation(params),
        {noise: results.read_pair_audit(params, noise, catalogues) for noise in params.report.cleaning},
        _unconverged(params, configs),
    )


def _configs(params: Params) -> dict[str, dict]:
    """config.json of every training that is here, below the runs, ensembles and transfers."""
    trainings = {run for name in params.evaluated() for run in params.trainings(name)}
    files = {run: paths.trained(run) / model_files.CONFIG for run in trainings}
    return {run: read_json(path) for run, path in files.items() if path.is_file()}


def _unconverged(params: Params, configs: dict[str, dict]) -> dict[str, list[str]]:
    """By name of params.yaml, and of its seeds: why the trainings below it have not converged."""
    reasons = {run: model_files.unconverged(config) for run, config in configs.items()}
    names = [*params.evaluated(), *params.groups]
    below = {name: sorted({reason for run in params.trainings(name) if (reason := reasons.get(run))}) for name in names}
    return {name: listed for name, listed in below.items() if listed}


def missing_lines(missing: list[tuple[str, str]]) -> list[str]:
    """One line an output; of many, the first."""
    lines = [f"{subject}: {reason}" for subject, reason in missing[:_SHOWN]]
    more = len(missing) - len(lines)
    return lines + [f"and {more} more; `dvc repro` makes them all"] * bool(more)


def _evaluation(params: Params, run: str, inference: str) -> Evaluation:
    """Raises InputError for one that was measured under other settings than params.yaml has."""
    folder = paths.evaluated(run, inference)
    metrics = evaluation.read_metrics(folder)
    wanted = {f"evaluate.{name}": getattr(params.evaluate, name) for name in ("split", "protocol", "ties")}
    measured = {address: metrics.get(address.partition(".")[2]) for address in wanted}
    if node := params.ensembles.get(run):
        wanted[f"ensembles.{run}"], measured[f"ensembles.{run}"] = node.entry, metrics.get("ensemble")
    for address, setting in wanted.items():
        if measured[address] != setting:
            raise InputError(
                f"{folder / evaluation.METRICS}: params.yaml {address} is {setting!r}, the figures are of "
                f"{measured[address]!r}; run `vse-pipe evaluate --run {run} --inference {inference}` again"
            )
    tables = evaluation.read_ranks(folder), evaluation.read_occurrence(folder)
    return Evaluation(run, inference, metrics, *tables, evaluation.read_relaxation(folder))


def _history(run: str) -> pd.DataFrame:
    """The epochs of a run; none when its scheme does not train."""
    table = model_files.read_history(paths.trained(run))
    if not np.isfinite(table[["epoch", "loss", "val_rsum"]].to_numpy(dtype=float)).all():
        path = paths.trained(run) / model_files.HISTORY
        raise InputError(f"{path}: a figure is not finite; run `vse-pipe train --run {run}` again")
    return table
