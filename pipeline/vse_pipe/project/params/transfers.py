"""Runs on data sets that they were not trained on."""

from collections.abc import Iterator
from dataclasses import replace

from vse_pipe.core.errors import UsageError, unknown
from vse_pipe.core.strict import Problem
from vse_pipe.project import paths
from vse_pipe.project.params.schema import BESIDE, TransferNode
from vse_pipe.project.params.typed import Params

Groups = dict[str, tuple[str, ...]]


def expanded(nodes: dict[str, TransferNode], groups: Groups) -> tuple[dict[str, TransferNode], Groups]:
    """A transfer for each model, and the names for a run with seeds: ``max_on_mine/1`` of ``max/1``."""
    transfers: dict[str, TransferNode] = {}
    repeated: Groups = {}
    for name, node in nodes.items():
        models = {name: node.run}
        if node.run in groups:
            models = {_seeded(name, run): run for run in groups[node.run]}
            repeated[name] = tuple(models)
        transfers |= {model: node.model_copy(update={"run": run}) for model, run in models.items()}
    return transfers, repeated


def _seeded(name: str, run: str) -> str:
    """``name`` with the seed of ``run``, whose folder lies beside those of the other seeds."""
    seed = paths.run_seed(run)
    return name if seed is None else paths.seed_run(name, seed)


def problems(params: Params) -> Iterator[Problem]:
    """Problems of transfers between existing entries, and of the files of several data sets."""
    for name, node in params.transfers.items():
        entry = paths.run_entry(name)
        place = ("transfers", entry)
        if entry in {*map(paths.run_entry, params.runs), *params.ensembles}:
            yield place, "a run or an ensemble has this name, and its folder in data/embed; rename one of them"
        trained_on = params.runs[node.run].dataset
        if node.dataset == trained_on:
            text = f"run '{node.run}' was trained on '{trained_on}' itself; name another data set"
            yield (*place, "dataset"), text
            continue
        if node.bank not in (None, node.dataset, trained_on):
            text = f"'{node.bank}' is neither of the data sets '{node.dataset}' and '{trained_on}'"
            yield (*place, "bank"), text
        if objection := _objection(params, node):
            yield (*place, "features"), objection
    measured = dict.fromkeys(map(params.dataset, (*params.runs, *params.transfers)))
    for key in BESIDE:
        setting = getattr(params.evaluate, key)
        if isinstance(setting, str) and len(measured) > 1:
            example = f"{{{next(iter(measured))}: {setting}}}"
            text = f"runs are on several data sets, {', '.join(measured)}; say which the file is of, as {example}"
            yield ("evaluate", key), text


def _objection(params: Params, node: TransferNode) -> str | None:
    """The problem of the features that a transfer names or leaves open."""
    trained_on = params.runs[node.run].features
    backbone = params.features[trained_on].backbone
    if node.features is not None:
        name = params.features[node.features].backbone.name
        if name != backbone.name:
            return f"'{node.features}' is of backbone {name}; run '{node.run}' reads {backbone.name}"
        return None
    candidates = _matching_features(params, node)
    if not candidates:
        name = f"{trained_on}_{node.dataset}"
        return (
            f"data set '{node.dataset}' has none of that backbone and options of features.{trained_on}, which run "
            f"'{node.run}' reads; add features.{name}, as features.{trained_on} but of dataset {node.dataset}, and "
            f"run `vse-pipe extract --features {name}`"
        )
    if len(candidates) > 1:
        return (
            f"data set '{node.dataset}' has several that run '{node.run}' can read; name one: {', '.join(candidates)}"
        )
    return None


def _matching_features(params: Params, node: TransferNode) -> list[str]:
    """Features of the transfer's data set with the backbone and options of the run's features."""
    origin = (node.dataset, params.features[params.runs[node.run].features].backbone)
    return [name for name, entry in params.features.items() if (entry.dataset, entry.backbone) == origin]


def completed(params: Params) -> Params:
    """``params`` with the features and the bank that transfers leave open, for params without problems."""
    transfers = {}
    for name, node in params.transfers.items():
        features = node.features or _matching_features(params, node)[0]
        transfers[name] = node.model_copy(update={"features": features, "bank": node.bank or node.dataset})
    return replace(params, transfers=transfers)


def with_transfers(params: Params, runs: list[str], dataset: str) -> tuple[Params, list[str]]:
    """``params`` with a transfer to ``dataset`` for each run, and their names: from an entry of params.yaml, else
    ``hal@mine``, which no entry can have. Raises UsageError."""
    if dataset not in params.datasets:
        raise UsageError(unknown("data set", dataset, params.datasets))
    named = {}
    for run in runs:
        existing = [name for name, node in params.transfers.items() if (node.run, node.dataset) == (run, dataset)]
        if len(existing) > 1:
            listing = ", ".join(map(paths.run_entry, existing))
            raise UsageError(
                f"run '{run}' has several transfers to '{dataset}': {listing}; name one of them with --run"
            )
        named[run] = existing[0] if existing else _seeded(f"{paths.run_entry(run)}@{dataset}", run)
    added = {
        name: TransferNode(run=run, dataset=dataset) for run, name in named.items() if name not in params.transfers
    }
    groups = {
        f"{run}@{dataset}": tuple(named[model] for model in models)
        for run, models in params.groups.items()
        if {*models} <= {*runs} and named[models[0]] in added
    }
    both = replace(params, transfers={**params.transfers, **added}, groups={**params.groups, **groups})
    if texts := [f"params.yaml {'.'.join(map(str, place))}: {text}" for place, text in problems(both)]:
        raise UsageError(*texts)
    return completed(both), list(named.values())
