"""What is wrong with the ensembles of params.yaml."""

from collections.abc import Iterator

from vse_pipe.core.errors import unknown
from vse_pipe.project.params.ensemble_node import TUNED, EnsembleNode
from vse_pipe.project.params.typed import Params


def problems(params: Params) -> Iterator[tuple[str, str]]:
    """(address, what is wrong): an unknown run, a run twice, runs of different data sets, a name that a run has already,
    weights that do not fit."""
    for name, node in params.ensembles.items():
        address = f"ensembles.{name}"
        if name in params.runs or name in params.groups:
            yield address, "a run has this name, and its folder in data/evaluate; rename one of them"
        if (node.first is None, node.second is None, node.runs is not None) not in _NAMED:
            yield address, "name its runs, as first and second or as a list under runs"
            continue
        yield from _members(params, node, address)
        yield from _weights(node, f"{address}.weights")
        plain = node.weights is None and node.fusion == "mean" and len(node.members) == 2
        if node.cascade is not None and not plain:
            yield f"{address}.cascade", "is of two runs in turn and takes neither weights nor a fusion; leave these out"


# Of first and second both, or neither and a list.
_NAMED = ((False, False, False), (True, True, True))


def _members(params: Params, node: EnsembleNode, address: str) -> Iterator[tuple[str, str]]:
    keys = ["first", "second"] if node.runs is None else ["runs"] * len(node.members)
    if len(keys) < 2:
        yield f"{address}.runs", f"'{node.members[0]}' is one model; name two runs at least, or one with several seeds"
    known = sorted(params.runs)
    for place, (key, run) in enumerate(zip(keys, node.members, strict=True)):
        if run in params.groups:
            repeated = ", ".join(params.groups[run])
            yield (
                f"{address}.{key}",
                f"run '{run}' has a model for each of its seeds; name one: {repeated}, or give it under runs",
            )
        elif run not in params.runs:
            yield f"{address}.{key}", unknown("run", run, known)
        if run in node.members[:place]:
            earlier = "the first run" if node.runs is None else "among them"
            yield f"{address}.{key}", f"'{run}' is {earlier} already; its mean with itself is itself"
    datasets = {run: params.runs[run].dataset for run in node.members if run in params.runs}
    if len(set(datasets.values())) > 1:
        told = " and ".join(f"'{run}' is of '{dataset}'" for run, dataset in datasets.items())
        runs = "both runs" if len(node.members) == 2 else "all runs"
        yield address, f"{runs} must be of one data set, but {told}"


def _weights(node: EnsembleNode, address: str) -> Iterator[tuple[str, str]]:
    if node.weights is None or node.weights == TUNED:
        return
    if len(node.weights) != len(node.members):
        yield (
            address,
            f"{len(node.weights)} weights for {len(node.members)} runs; give one for each, in the order of the runs",
        )
    elif not any(node.weights):
        yield address, "all are 0; at least one run must count"
