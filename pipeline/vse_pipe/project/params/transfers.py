"""transfers.<name> of params.yaml: which features of the other data set a run reads, and what is wrong with an entry."""

from collections.abc import Iterator
from dataclasses import replace

from vse_pipe.core.errors import UsageError, unknown
from vse_pipe.project import repetitions
from vse_pipe.project.params import beside
from vse_pipe.project.params.transfer_node import TransferNode
from vse_pipe.project.params.typed import Params

Groups = dict[str, tuple[str, ...]]


def expanded(nodes: dict[str, TransferNode], groups: Groups) -> tuple[dict[str, TransferNode], Groups]:
    """One transfer a model, and the names of those of a run with seeds: ``max_on_mine/1`` of ``max/1``."""
    found: dict[str, TransferNode] = {}
    repeated: Groups = {}
    for name, node in nodes.items():
        models = {name: node.run}
        if node.run in groups:
            models = {repetitions.name(name, int(str(one).rpartition("/")[2])): one for one in groups[node.run]}
            repeated[name] = tuple(models)
        found |= {one: node.model_copy(update={"run": run}) for one, run in models.items()}
    return found, repeated


def problems(params: Params) -> Iterator[tuple[str, str]]:
    """(address, what is wrong) of params whose other entries are right."""
    for name, node in params.transfers.items():
        entry = repetitions.entry(name)
        address = f"transfers.{entry}"
        if entry in {*map(repetitions.entry, params.runs), *params.ensembles}:
            yield address, "a run or an ensemble has this name, and its folder in data/embed; rename one of them"
        if node.run not in params.runs:
            yield (
                f"{address}.run",
                unknown("run", node.run, sorted({*params.runs, *map(repetitions.entry, params.runs)})),
            )
            continue
        own = params.runs[node.run].dataset
        if node.dataset not in params.datasets:
            yield f"{address}.dataset", unknown("data set", node.dataset, sorted(params.datasets))
        elif node.dataset == own:
            yield f"{address}.dataset", f"run '{node.run}' was trained on '{own}' itself; name another data set"
        else:
            yield from ((f"{address}.features", text) for text in _features(params, node))
            if node.bank not in (None, node.dataset, own):
                yield f"{address}.bank", f"'{node.bank}' is neither of the data sets '{node.dataset}' and '{own}'"


def completed(params: Params) -> Params:
    """With the features and the bank that every transfer leaves open, for params without ``problems``."""
    return replace(params, transfers={name: _completed(params, node) for name, node in params.transfers.items()})


def with_transfers(params: Params, runs: list[str], dataset: str) -> tuple[Params, list[str]]:
    """``params`` in which each of the runs has a transfer to ``dataset``, and the names of these: that of an entry of
    params.yaml where there is one, else ``hal@mine``, which no entry can have. Raises UsageError."""
    known = {
        run: [name for name, node in params.transfers.items() if (node.run, node.dataset) == (run, dataset)]
        for run in runs
    }
    for run, names in known.items():
        if len(names) > 1:
            several = ", ".join(map(repetitions.entry, names))
            raise UsageError(
                f"run '{run}' has several transfers to '{dataset}': {several}; name one of them with --run"
            )
    named = {run: names[0] if names else _name(run, dataset) for run, names in known.items()}
    added = {
        name: TransferNode(run=run, dataset=dataset) for run, name in named.items() if name not in params.transfers
    }
    if wrong := list(problems(replace(params, transfers=added))):
        raise UsageError("\n".join(dict.fromkeys(text for _, text in wrong)))
    whole = {run: models for run, models in params.groups.items() if {*models} <= {*runs} and named[models[0]] in added}
    groups = {_name(run, dataset): tuple(named[one] for one in models) for run, models in whole.items()}
    both = replace(params, transfers={**params.transfers, **added}, groups={**params.groups, **groups})
    if objections := [f"params.yaml {address}: {text}" for address, text in beside.problems(both)]:
        raise UsageError("\n".join(objections))
    return completed(both), list(named.values())


def _name(run: str, dataset: str) -> str:
    """``max@mine/1`` of ``max/1``: its folder lies beside those of the other seeds."""
    entry, seed = repetitions.entry(run), repetitions.seed(run)
    return f"{entry}@{dataset}" if seed is None else repetitions.name(f"{entry}@{dataset}", seed)


def _completed(params: Params, node: TransferNode) -> TransferNode:
    features = node.features or _alike(params, node)[0]
    return node.model_copy(update={"features": features, "bank": node.bank or node.dataset})


def _features(params: Params, node: TransferNode) -> Iterator[str]:
    own = params.runs[node.run].features
    backbone = params.features[own].backbone
    if node.features is not None:
        given = params.features.get(node.features)
        if given is None:
            yield unknown("features", node.features, sorted(params.features))
        elif given.dataset != node.dataset:
            yield f"'{node.features}' belongs to data set '{given.dataset}', not '{node.dataset}'"
        elif given.backbone.name != backbone.name:
            yield f"'{node.features}' is of backbone {given.backbone.name}; run '{node.run}' reads {backbone.name}"
        return
    found = _alike(params, node)
    if not found:
        added = f"{own}_{node.dataset}"
        yield (
            f"run '{node.run}' reads features.{own} ({backbone.name}) and data set '{node.dataset}' has none of that backbone "
            f"and its options; add features.{added}, of dataset {node.dataset} and else as features.{own}, and run "
            f"`vse-pipe extract --features {added}`"
        )
    elif len(found) > 1:
        yield f"data set '{node.dataset}' has several that run '{node.run}' can read; name one: {', '.join(found)}"


def _alike(params: Params, node: TransferNode) -> list[str]:
    """Features of the other data set with the backbone and options of the run's own."""
    backbone = params.features[params.runs[node.run].features].backbone
    return [name for name, one in params.features.items() if (one.dataset, one.backbone) == (node.dataset, backbone)]
