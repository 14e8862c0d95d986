"""What is wrong with the ensembles of params.yaml."""

from collections.abc import Iterator

from pipeline.core.unknown import unknown
from pipeline.project.params.typed import Params


def problems(params: Params) -> Iterator[tuple[str, str]]:
    """(address, what is wrong): an unknown run, a run twice, runs of different data sets, a name that a run has already."""
    for name, node in params.ensembles.items():
        address = f"ensembles.{name}"
        if name in params.runs or name in params.groups:
            yield address, "a run has this name, and its folder in data/evaluate; rename one of them"
        known = sorted(params.runs)
        for key in ("first", "second"):
            run = getattr(node, key)
            if run in params.groups:
                yield (
                    f"{address}.{key}",
                    f"run '{run}' has a model for each of its seeds; name one: {', '.join(params.groups[run])}",
                )
            elif run not in params.runs:
                yield (f"{address}.{key}", unknown("run", run, known))
        if node.first == node.second:
            yield (f"{address}.second", f"'{node.second}' is the first run already; its mean with itself is itself")
        datasets = {run: params.runs[run].dataset for run in (node.first, node.second) if run in params.runs}
        if len(set(datasets.values())) > 1:
            told = " and ".join(f"'{run}' is of '{dataset}'" for run, dataset in datasets.items())
            yield address, f"both runs must be of one data set, but {told}"
