"""Read the outputs that params.yaml names, and list those that are missing."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from vse_pipe.artifacts import audit, captions, decisions, evaluation, identity, localisation, model_files
from vse_pipe.artifacts.catalogue import Catalogue
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.core.files import read_json, require
from vse_pipe.core.places import command_of
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EPOCH, SweepNode
from vse_pipe.project.params.typed import Params
from vse_pipe.report.results import (
    Audit,
    Evaluation,
    Group,
    Localisation,
    PairAudit,
    Results,
    RunResult,
    TrainedRun,
    repeated,
)

# A reason that begins with this has no command that helps.
UNCOMPUTED = "cannot be computed"
_SHOWN, _SUSPECTS = 5, 12


@dataclass(frozen=True)
class ReportEntry:
    """A run, ensemble or transfer of params.yaml. out: data/evaluate/<name>; prepared: of the data
    set it is measured on; trainings: folders of its models; criteria: those that rank it."""

    name: str
    kind: str
    out: Path
    prepared: Path
    trainings: list[Path]
    criteria: list[str]


def read(params: Params) -> Results:
    """The outputs that exist for the entries of params; no groups when no data set has captions.

    Raises UsageError when params names no run, InputError when no output exists or one was measured
    under other settings than params.yaml has, IntegrityError when an output was made from another
    model or from other data than the present."""
    if not params.runs:
        raise UsageError("params.yaml runs: there is no run to report on")
    entries, missing = _present(params)
    extras, absent = _extras(params)
    missing += absent
    if missing and not entries:
        raise InputError(*missing_lines(missing))
    for folder in [entry.out for entry in entries] + [out for outs in extras.values() for out in outs.values()]:
        identity.require_current(folder)
    for entry in entries:
        identity.require_current(entry.out, (), [entry.prepared, *entry.trainings])
    reduced = _reduced(params, entries, extras)
    configs = {folder: read_json(folder / model_files.CONFIG) for entry in entries for folder in entry.trainings}
    models = {entry.name: _model(params, entry, configs) for entry in entries}
    groups = _groups(reduced, entries, models)
    return Results(
        reduced,
        groups,
        {run: _audit(folder) for run, folder in extras["audits"].items()},
        missing,
        {run: _localisation(params, run, folder) for run, folder in extras["localized"].items()},
        {noise: _pair_audit(params, noise, folder) for noise, folder in extras["cleaning"].items()},
        _unconverged(reduced, entries, configs),
    )


def _entries(params: Params) -> list[ReportEntry]:
    """Without those on data sets that have no captions, which only transfers measure."""
    kinds = dict.fromkeys(params.ensembles, "ensemble") | dict.fromkeys(params.transfers, "transfer")
    entries = [
        ReportEntry(
            name,
            kinds.get(name, "run"),
            paths.evaluations(name),
            paths.prepared(params.dataset(name)),
            list(map(paths.trained, params.trainings(name))),
            params.ranked_under(name),
        )
        for name in params.evaluated()
    ]
    return [entry for entry in entries if not captions.absent(entry.prepared)]


def _present(params: Params) -> tuple[list[ReportEntry], list[tuple[str, str]]]:
    """The entries that are evaluated, with the criteria that are, and what is missing. The readers
    of the files check their contents."""
    present, missing = [], []
    for entry in _entries(params):
        label = f"{entry.kind} {entry.name}"
        untrained = [folder for folder in entry.trainings if not (folder / model_files.CONFIG).is_file()]
        reasons = evaluation.read_unmeasured(entry.out)
        made = [name for name in entry.criteria if (entry.out / name / evaluation.METRICS).is_file()]
        unmade = [name for name in entry.criteria if name not in made and name not in reasons]
        if untrained:
            missing += [(label, _unmade(untrained[0]))]
            continue
        missing += [
            (f"{label} under {name}", f"{UNCOMPUTED}: {reasons[name]}")
            for name in entry.criteria
            if name in reasons and name not in made
        ]
        if unmade and made:
            option = f" --inference {','.join(unmade)}"
            missing += [(f"{label} under {', '.join(unmade)}", _unmade(entry.out, option))]
        elif unmade:
            missing += [(label, _unmade(entry.out))]
        if made:
            present += [replace(entry, criteria=made)]
    return present, missing


def _extras(params: Params) -> tuple[dict[str, dict[str, Path]], list[tuple[str, str]]]:
    """The folders of the extras under ``report`` that exist, and what is missing."""
    report = params.report
    folders = {
        "audits": {run: paths.audited(run) for run in report.audits},
        "localized": {run: paths.localized(run) for run in report.localized},
        "cleaning": {noise: paths.audited_pairs(dataset, noise) for noise, dataset in report.cleaning.items()},
    }
    kinds = {"audits": "audit of", "localized": "localisation of", "cleaning": "audit of pairs"}
    present: dict[str, dict[str, Path]] = {key: {} for key in kinds}
    missing = []
    for key, kind in kinds.items():
        for name, folder in folders[key].items():
            if (folder / audit.METRICS).is_file():
                present[key][name] = folder
            else:
                missing += [(f"{kind} {name}", _unmade(folder))]
    return present, missing


def _unmade(folder: Path, option: str = "") -> str:
    return f"not made; make it with `{command_of(folder)}{option}` or `dvc repro`"


def missing_lines(missing: list[tuple[str, str]]) -> list[str]:
    """One line an output; of many, the first."""
    lines = [f"{subject}: {reason}" for subject, reason in missing[:_SHOWN]]
    more = len(missing) - len(lines)
    return lines + [f"and {more} more; `dvc repro` makes them all"] * bool(more)


def _reduced(params: Params, entries: list[ReportEntry], extras: dict[str, dict[str, Path]]) -> Params:
    """params with the entries that the page can show."""
    criteria = {entry.name: entry.criteria for entry in entries}

    def evaluated(nodes: dict) -> dict:
        return {name: node for name, node in nodes.items() if name in criteria}

    used = {criterion for names in criteria.values() for criterion in names}
    groups = {name: tuple(model for model in models if model in criteria) for name, models in params.groups.items()}
    sweeps = {name: _sweep(params, node, criteria) for name, node in params.report.sweeps.items()}
    report: dict[str, Any] = {key: list(names) for key, names in extras.items()}
    report["cleaning"] = {name: params.report.cleaning[name] for name in report["cleaning"]}
    report["sweeps"] = {name: node for name, node in sweeps.items() if node.runs}
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


def _sweep(params: Params, node: SweepNode, criteria: dict[str, list[str]]) -> SweepNode:
    def is_evaluated(run: str) -> bool:
        names = [criteria[model] for model in params.models(run) if model in criteria]
        return bool(names) and (node.x == EPOCH or all(node.inference in listed for listed in names))

    named = {"runs": node.runs, "baselines": node.baselines}
    return node.model_copy(update={key: list(filter(is_evaluated, runs)) for key, runs in named.items()})


def _model(params: Params, entry: ReportEntry, configs: dict[Path, dict]) -> RunResult:
    evaluations = {criterion: _evaluation(params, entry, criterion) for criterion in entry.criteria}
    if ensemble := params.ensembles.get(entry.name):
        return RunResult(entry.name, None, None, evaluations, ensemble.members, ensemble.row)
    if moved := params.transfers.get(entry.name):
        return RunResult(entry.name, params.runs[moved.run], None, evaluations, moved=True)
    run, folder = params.runs[entry.name], entry.trainings[0]
    history = _history(folder)
    return TrainedRun(entry.name, run, history, evaluations, row=run.row, config=configs[folder])


def _evaluation(params: Params, entry: ReportEntry, inference: str) -> Evaluation:
    """Raises InputError for one that was measured under other settings than params.yaml has."""
    folder = entry.out / inference
    metrics = evaluation.read_metrics(folder)
    wanted = {f"evaluate.{name}": getattr(params.evaluate, name) for name in ("split", "protocol", "ties")}
    measured = {address: metrics.get(address.partition(".")[2]) for address in wanted}
    if node := params.ensembles.get(entry.name):
        address = f"ensembles.{entry.name}"
        wanted[address], measured[address] = node.entry, metrics.get("ensemble")
    for address, setting in wanted.items():
        if measured[address] != setting:
            raise InputError(
                f"{folder / evaluation.METRICS}: params.yaml {address} is {setting!r}, the figures are of "
                f"{measured[address]!r}; run `{command_of(entry.out)} --inference {inference}` again"
            )
    tables = evaluation.read_ranks(folder), evaluation.read_occurrence(folder)
    return Evaluation(entry.name, inference, metrics, *tables, evaluation.read_relaxation(folder))


def _history(folder: Path) -> pd.DataFrame:
    """The epochs of a training; none when its scheme does not train."""
    table = model_files.read_history(folder)
    if not np.isfinite(table[["epoch", "loss", "val_rsum"]].to_numpy(dtype=float)).all():
        path = folder / model_files.HISTORY
        raise InputError(f"{path}: a figure is not finite; {identity.made_anew(folder)}")
    return table


def _groups(params: Params, entries: list[ReportEntry], models: dict[str, RunResult]) -> list[Group]:
    """The methods by data set: runs, then ensembles, then transfers. params: reduced."""
    prepared = {entry.name: entry.prepared for entry in entries}
    methods: dict[Path, list[RunResult]] = {}
    for name in [*params.named(params.runs), *params.ensembles, *params.named(params.transfers)]:
        names = params.models(name)
        seeds = [models[model] for model in names]
        method = repeated(name, seeds, params) if name in params.groups else seeds[0]
        methods[prepared[names[0]]] = [*methods.get(prepared[names[0]], []), method]
    return [Group(Catalogue.read(folder), runs) for folder, runs in methods.items()]


def _unconverged(params: Params, entries: list[ReportEntry], configs: dict[Path, dict]) -> dict[str, list[str]]:
    """By name of params.yaml, and of its seeds: why the trainings below it have not converged."""
    reasons = {folder: model_files.unconverged(config) for folder, config in configs.items()}
    below = {entry.name: {reason for folder in entry.trainings if (reason := reasons[folder])} for entry in entries}
    below |= {name: set().union(*(below[model] for model in models)) for name, models in params.groups.items()}
    return {name: sorted(listed) for name, listed in below.items() if listed}


def _audit(folder: Path) -> Audit:
    metrics = audit.read_metrics(folder)
    # Ids stay integers in columns with nulls.
    pairs = audit.read_pairs(folder).to_pandas(integer_object_nulls=True).set_index("caption_id")
    return Audit(folder.name, metrics, pairs, audit.read_histogram(folder), audit.read_costs(folder))


def _pair_audit(params: Params, noise: str, folder: Path) -> PairAudit:
    metrics = audit.read_metrics(folder)
    doubts = audit.read_doubts(folder).to_pandas(integer_object_nulls=True)
    first = doubts.sort_values("odds", ascending=False, kind="stable").head(_SUSPECTS)
    findings = decisions.read(require(folder / decisions.FINDINGS)).query("kind == 'pair'").set_index("id")
    suspects = first.join(findings[["proposal", "other"]], on="caption_id")
    return PairAudit(noise, metrics, suspects, Catalogue.read(paths.prepared(params.report.cleaning[noise])))


def _localisation(params: Params, run: str, folder: Path) -> Localisation:
    """Raises InputError for one with other settings than params.yaml has."""
    metrics = localisation.read_metrics(folder)
    for name, value in params.localize.model_dump().items():
        if metrics.get(name) != value:
            problem = f"{name} is {metrics.get(name)!r}, params.yaml localize.{name} is {value!r}"
            raise InputError(f"{folder / localisation.METRICS}: {problem}; {identity.made_anew(folder)}")
    ranks = localisation.read_ranks(folder)
    catalogue = Catalogue.read(localisation.source(ranks))
    return Localisation(run, metrics, ranks.to_pandas().set_index("phrase_id"), catalogue)
