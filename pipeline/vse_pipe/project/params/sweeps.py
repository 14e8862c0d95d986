"""Values of runs by address, such as ``loss.margin``, for ``report.sweeps``."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from vse_pipe.core.errors import missing
from vse_pipe.core.strict import Problem, Strict
from vse_pipe.project.params.schema import EPOCH
from vse_pipe.project.params.typed import Member, Params, Run

# Entries of a run that name a node; their values are the options of the node's member.
_NODES = {"dataset": "datasets", "features": "features", "texts": "texts", "noise": "noises"}


def value(params: Params, run: str, x: str) -> int | float:
    """The number at ``x`` in a run. Raises KeyError where it is missing."""
    return _values(params, _first(params, run))[x]


def _first(params: Params, run: str) -> Run:
    """The run, or its first seed: the seeds differ in nothing else."""
    return params.runs[params.models(run)[0]]


def problems(params: Params) -> Iterator[Problem]:
    """Runs without a number at the address of their sweep."""
    for name, sweep in params.report.sweeps.items():
        texts = [_objection(params, run, sweep.x) for run in sweep.runs if sweep.x != EPOCH]
        for text in dict.fromkeys(filter(None, texts)):
            yield ("report", "sweeps", name, "x"), text


def _objection(params: Params, run: str, x: str) -> str | None:
    values = _values(params, _first(params, run))
    if x not in values:
        return missing(f"run '{run}' has no value '{x}'", x, [EPOCH, *values])
    number = values[x]
    if isinstance(number, bool) or not isinstance(number, int | float):
        return f"expected a number, but {x} of run '{run}' is {number!r}"
    return None


def _values(params: Params, run: Run) -> dict[str, Any]:
    """{address: value} of a run: ``{"loss.margin": 0.2, "train.lr": 0.0005, ...}``."""
    values: dict[str, Any] = {}
    for field in fields(run):
        part = getattr(run, field.name)
        if field.name in _NODES and (node := getattr(params, _NODES[field.name]).get(part)):
            part = next(entry for entry in vars(node).values() if isinstance(entry, Member))
        options = part.params if isinstance(part, Member) else part
        if isinstance(options, Strict):
            values |= flat(options.model_dump(), f"{field.name}.")
    return values


def flat(values: dict, prefix: str = "") -> dict[str, Any]:
    """The leaves of nested dictionaries, with keys ``outer.inner``."""
    leaves: dict[str, Any] = {}
    for key, value in values.items():
        leaves |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return leaves
