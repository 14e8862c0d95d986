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
    """The number at ``x`` in a run, or in its first seed: the seeds differ in nothing else. Raises
    KeyError where it is missing."""
    return _values(params, params.runs[params.models(run)[0]])[x]


def problems(params: Params) -> Iterator[Problem]:
    """Runs without a number at the address of their sweep."""
    for name, sweep in params.report.sweeps.items():
        for run in sweep.runs if sweep.x != EPOCH else ():
            values, place = _values(params, params.runs[params.models(run)[0]]), ("report", "sweeps", name, "x")
            number = values.get(sweep.x)
            if sweep.x not in values:
                yield place, missing(f"run '{run}' has no value '{sweep.x}'", sweep.x, [EPOCH, *values])
            elif isinstance(number, bool) or not isinstance(number, int | float):
                yield place, f"expected a number, but {sweep.x} of run '{run}' is {number!r}"


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
