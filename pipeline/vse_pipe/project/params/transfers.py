"""Runs on data sets that they were not trained on."""

from collections.abc import Iterator
from dataclasses import replace

from vse_pipe.core.strict import Problem
from vse_pipe.project import paths
from vse_pipe.project.params.schema import TransferNode
from vse_pipe.project.params.typed import Params

Groups = dict[str, tuple[str, ...]]


def expanded(nodes: dict[str, TransferNode], groups: Groups) -> tuple[dict[str, TransferNode], Groups]:
    """A transfer for each model: ``max_on_mine/1`` of ``max/1``, and their names."""
    transfers: dict[str, TransferNode] = {}
    repeated: Groups = {}
    for name, node in nodes.items():
        models = {name: node.run}
        if node.run in groups:
            models = {paths.seed_run(name, int(run.rpartition("/")[2])): run for run in groups[node.run]}
            repeated[name] = tuple(models)
        transfers |= {model: node.model_copy(update={"run": run}) for model, run in models.items()}
    return transfers, repeated


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
    file = params.evaluate.judgements
    if isinstance(file, str) and len(measured) > 1:
        example = f"{{{next(iter(measured))}: {file}}}"
        text = f"runs are on several data sets, {', '.join(measured)}; say which the file is of, as {example}"
        yield ("evaluate", "judgements"), text


def _objection(params: Params, node: TransferNode) -> str | None:
    """The problem of the features that a transfer names or leaves open."""
    trained_on = params.runs[node.run].features
    backbone = params.features[trained_on].backbone.name
    if node.features is not None:
        name = params.features[node.features].backbone.name
        return None if name == backbone else f"'{node.features}' is of {name}; run '{node.run}' reads {backbone}"
    candidates = _matching_features(params, node)
    if len(candidates) > 1:
        return f"run '{node.run}' can read several; name one: {', '.join(candidates)}"
    text = f"'{node.dataset}' has none made as features.{trained_on}, which run '{node.run}' reads; add them"
    return None if candidates else text


def _matching_features(params: Params, node: TransferNode) -> list[str]:
    """Features of the transfer's data set with the backbone and options of the run's features."""
    origin = (node.dataset, params.features[params.runs[node.run].features].backbone)
    return [name for name, entry in params.features.items() if (entry.dataset, entry.backbone) == origin]


def completed(params: Params) -> Params:
    """``params`` with the features and the bank that transfers leave open."""
    transfers = {}
    for name, node in params.transfers.items():
        features = node.features or _matching_features(params, node)[0]
        transfers[name] = node.model_copy(update={"features": features, "bank": node.bank or node.dataset})
    return replace(params, transfers=transfers)
