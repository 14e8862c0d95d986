"""report.sweeps against the runs it names: the one place that turns an address such as ``loss.k`` into a run's value."""

from dataclasses import fields
from typing import Any

from vse_pipe.core.errors import missing, unknown
from vse_pipe.core.strict import Strict
from vse_pipe.project.params.schema import SweepNode
from vse_pipe.project.params.typed import Member, Params, Run

EPOCH = "epoch"
# Entries of a run that name a node: their values are the options of the member behind it.
_NODES = {"dataset": "datasets", "features": "features", "texts": "texts", "noise": "noises"}


def value(params: Params, run: str, x: str) -> int | float:
    """The number at ``x`` in a run, for sweeps without problems. Raises KeyError where the run has none."""
    return _values(params, _first(params, run))[x]


def _known(params: Params, run: str) -> bool:
    return params.models(run)[0] in params.runs


def _first(params: Params, run: str) -> Run:
    """The run, or of one with seeds its first repetition: they differ in the seed alone."""
    return params.runs[params.models(run)[0]]


def problems(params: Params) -> list[tuple[str, str]]:
    """(address, what is wrong there) of every mistake in report.sweeps."""
    found = []
    for name, sweep in params.report.sweeps.items():
        address = f"report.sweeps.{name}"
        named = list(_named(params, sweep))
        found += [(f"{address}.{key}", text) for key, text in named]
        found += [(f"{address}.{key}", text) for key, text in _criterion(params, sweep)]
        if sweep.x != EPOCH:
            texts = [_number(params, run, sweep.x) for run in sweep.runs if _known(params, run)]
            found += [(f"{address}.x", text) for text in dict.fromkeys(texts) if text]
    return found


def _named(params: Params, sweep: SweepNode):
    for key, runs in (("runs", sweep.runs), ("baselines", sweep.baselines)):
        for index, run in enumerate(runs):
            if not _known(params, run):
                known = sorted({*params.runs, *params.named(params.runs)})
                text = unknown("run", run, known)
                yield f"{key}.{index}", text
            elif run in runs[:index]:
                yield f"{key}.{index}", f"run '{run}' is named twice"
    named = [run for run in (*sweep.runs, *sweep.baselines) if _known(params, run)]
    datasets = {_first(params, run).dataset: run for run in named}
    if len(datasets) > 1:
        apart = ", ".join(f"'{run}' is of '{dataset}'" for dataset, run in datasets.items())
        yield "runs", f"runs of several data sets cannot be compared: {apart}"


def _criterion(params: Params, sweep: SweepNode):
    if sweep.x == EPOCH:
        for key in sorted({"baselines", "inference"} & sweep.model_fields_set):
            yield key, "learning curves (x: epoch) have none; leave it out"
    elif sweep.inference not in params.grid.inferences:
        what = f"'{sweep.inference}' is not in grid.inferences"
        yield "inference", missing(what, sweep.inference, params.grid.inferences)


def _number(params: Params, run: str, x: str) -> str | None:
    """What is wrong with the value at ``x``, None where it is a number."""
    values = _values(params, _first(params, run))
    if x not in values:
        beside = [known for known in values if known.startswith(x.partition(".")[0] + ".")]
        every = [EPOCH, *values]
        return missing(f"run '{run}' has no value '{x}'", x, every, f"known: {', '.join(beside or every)}")
    found = values[x]
    if isinstance(found, bool) or not isinstance(found, int | float):
        return f"expected a number, but {x} of run '{run}' is {found!r}"
    return None


def _values(params: Params, run: Run) -> dict[str, Any]:
    """Every value of a run by its address: ``{"loss.margin": 0.2, "noise.rate": 0.0, "train.lr": 0.0005, ...}``."""
    found: dict[str, Any] = {}
    for field in fields(run):
        part = getattr(run, field.name)
        if field.name in _NODES:
            node = getattr(params, _NODES[field.name]).get(part)
            part = next((one for one in vars(node).values() if isinstance(one, Member)), None) if node else None
        options = part.params if isinstance(part, Member) else part
        if isinstance(options, Strict):
            found |= _flat(options.model_dump(), f"{field.name}.")
    return found


def _flat(values: dict, prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, one in values.items():
        found |= _flat(one, f"{prefix}{key}.") if isinstance(one, dict) else {f"{prefix}{key}": one}
    return found
