"""Read the outputs that params.yaml names, and list those that are missing."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vse_pipe.artifacts import audit, captions, decisions, evaluation, identity, localisation, model_files
from vse_pipe.artifacts.catalogue import Catalogue
from vse_pipe.core import tables
from vse_pipe.core.errors import InputError, UsageError, command_of
from vse_pipe.core.files import read_json, require
from vse_pipe.project import paths
from vse_pipe.project.params.schema import SweepNode
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
_SUSPECTS = 12


@dataclass(frozen=True)
class ReportEntry:
    """A run, ensemble or transfer of params.yaml. out: data/evaluate/<name>; prepared: of the data
    set it is measured on; trainings: folders of its models; criteria: those that rank it."""

    name: str
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
        raise InputError(*(f"{subject}: {reason}" for subject, reason in missing))
    for entry in entries:
        identity.require_current(entry.out)
        identity.require_current(entry.out, (), [entry.prepared, *entry.trainings])
    for folder in [folder for folders in extras.values() for folder in folders.values()]:
        identity.require_current(folder)
    reduced = _reduced(params, entries, extras)
    configs = {folder: read_json(folder / model_files.CONFIG) for entry in entries for folder in entry.trainings}
    models = {entry.name: _model(params, entry, configs) for entry in entries}
    return Results(
        reduced,
        _groups(reduced, entries, models),
        {run: _audit(folder) for run, folder in extras["audits"].items()},
        missing,
        {run: _localisation(params, run, folder) for run, folder in extras["localized"].items()},
        {noise: _pair_audit(params, noise, folder) for noise, folder in extras["cleaning"].items()},
        _unconverged(reduced, entries, configs),
    )


def _present(params: Params) -> tuple[list[ReportEntry], list[tuple[str, str]]]:
    """The entries that are evaluated, with the criteria that are, and what is missing. Without
    those on data sets that have no captions, which only transfers measure."""
    kinds = dict.fromkeys(params.ensembles, "ensemble") | dict.fromkeys(params.transfers, "transfer")
    present, missing = [], []
    for name in params.evaluated():
        label, out, prepared = (
            f"{kinds.get(name, 'run')} {name}",
            paths.evaluations(name),
            paths.prepared(params.dataset(name)),
        )
        if captions.absent(prepared):
            continue
        trainings = [paths.trained(run) for run in params.trainings(name)]
        untrained = [folder for folder in trainings if not (folder / model_files.CONFIG).is_file()]
        criteria = params.ranked_under(name)
        measured = [each for each in criteria if (out / each / evaluation.METRICS).is_file()]
        reasons = {each: f"{UNCOMPUTED}: {why}" for each, why in evaluation.read_unmeasured(out).items()}
        if untrained or not (measured or reasons):
            missing.append((label, _unmade(untrained[0] if untrained else out)))
            continue
        reasons = {each: _unmade(out, f" --inference {each}") for each in criteria} | reasons
        missing += [(f"{label} under {each}", reasons[each]) for each in criteria if each not in measured]
        present += [ReportEntry(name, out, prepared, trainings, measured)] if measured else []
    return present, missing


def _extras(params: Params) -> tuple[dict[str, dict[str, Path]], list[tuple[str, str]]]:
    """The folders of the extras under ``report`` that exist, and what is missing."""
    report = params.report
    folders = {
        ("audits", "audit of"): {run: paths.audited(run) for run in report.audits},
        ("localized", "localisation of"): {run: paths.localized(run) for run in report.localized},
        ("cleaning", "audit of pairs"): {
            noise: paths.audited_pairs(dataset, noise) for noise, dataset in report.cleaning.items()
        },
    }
    present: dict[str, dict[str, Path]] = {}
    missing = []
    for (key, kind), named in folders.items():
        present[key] = {name: folder for name, folder in named.items() if (folder / audit.METRICS).is_file()}
        missing += [(f"{kind} {name}", _unmade(named[name])) for name in named if name not in present[key]]
    return present, missing


def _unmade(folder: Path, option: str = "") -> str:
    return f"not made; make it with `{command_of(folder)}{option}` or `dvc repro`"


def _reduced(params: Params, entries: list[ReportEntry], extras: dict[str, dict[str, Path]]) -> Params:
    """params with the entries that the page can show."""
    criteria = {entry.name: entry.criteria for entry in entries}

    def evaluated(nodes: dict) -> dict:
        return {name: node for name, node in nodes.items() if name in criteria}

    def drawn(node: SweepNode) -> SweepNode:
        """The sweep with the runs whose models have its criterion."""
        runs = {
            run: [criteria[model] for model in params.models(run) if model in criteria]
            for run in (*node.runs, *node.baselines)
        }
        able = [run for run, names in runs.items() if names and all(node.inference in each for each in names)]
        keys = ("runs", "baselines")
        return node.model_copy(update={key: [run for run in getattr(node, key) if run in able] for key in keys})

    used = {criterion for names in criteria.values() for criterion in names}
    groups = {name: tuple(model for model in models if model in criteria) for name, models in params.groups.items()}
    sweeps = {name: drawn(node) for name, node in params.report.sweeps.items()}
    report: dict[str, Any] = {"sweeps": {name: node for name, node in sweeps.items() if node.runs}}
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


def _model(params: Params, entry: ReportEntry, configs: dict[Path, dict]) -> RunResult:
    evaluations = {criterion: _evaluation(params, entry, criterion) for criterion in entry.criteria}
    if ensemble := params.ensembles.get(entry.name):
        return RunResult(entry.name, None, None, evaluations, ensemble.members, ensemble.row)
    if moved := params.transfers.get(entry.name):
        return RunResult(entry.name, params.runs[moved.run], None, evaluations, moved=True)
    run, folder = params.runs[entry.name], entry.trainings[0]
    history = model_files.read_history(folder)
    return TrainedRun(entry.name, run, history, evaluations, row=run.row, config=configs[folder])


def _evaluation(params: Params, entry: ReportEntry, inference: str) -> Evaluation:
    folder = entry.out / inference
    metrics = evaluation.read_metrics(folder)
    settings = {f"evaluate.{name}": getattr(params.evaluate, name) for name in ("split", "protocol", "ties")}
    if node := params.ensembles.get(entry.name):
        settings[f"ensembles.{entry.name}"] = node.entry
    _require(settings, {**metrics, entry.name: metrics.get("ensemble")}, entry.out)
    tables = evaluation.read_ranks(folder), evaluation.read_occurrence(folder)
    return Evaluation(entry.name, inference, metrics, *tables, evaluation.read_relaxation(folder))


def _require(settings: dict[str, Any], metrics: dict, out: Path) -> None:
    """Raises InputError for figures of other settings, by address, than params.yaml has."""
    for address, setting in settings.items():
        measured = metrics.get(address.partition(".")[2])
        if measured != setting:
            text = f"params.yaml {address} is {setting!r}, the figures are of {measured!r}"
            raise InputError(f"{out}: {text}; {identity.made_anew(out)}")


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
    metrics = read_json(folder / audit.METRICS)
    # Ids stay integers in columns with nulls.
    pairs = audit.read_pairs(folder).to_pandas(integer_object_nulls=True).set_index("caption_id")
    costs = folder / audit.COSTS
    histogram = tables.read_csv(folder / audit.HISTOGRAM)
    return Audit(folder.name, metrics, pairs, histogram, tables.read_csv(costs) if costs.exists() else None)


def _pair_audit(params: Params, noise: str, folder: Path) -> PairAudit:
    metrics = read_json(folder / audit.METRICS)
    doubts = audit.read_doubts(folder).to_pandas(integer_object_nulls=True)
    first = doubts.sort_values("odds", ascending=False, kind="stable").head(_SUSPECTS)
    findings = decisions.read(require(folder / decisions.FINDINGS)).query("kind == 'pair'").set_index("id")
    suspects = first.join(findings[["proposal", "other"]], on="caption_id")
    return PairAudit(noise, metrics, suspects, Catalogue.read(paths.prepared(params.report.cleaning[noise])))


def _localisation(params: Params, run: str, folder: Path) -> Localisation:
    metrics = read_json(folder / localisation.METRICS)
    _require({f"localize.{name}": value for name, value in params.localize.model_dump().items()}, metrics, folder)
    ranks = localisation.read_ranks(folder)
    catalogue = Catalogue.read(localisation.source(ranks))
    return Localisation(run, metrics, ranks.to_pandas().set_index("phrase_id"), catalogue)
