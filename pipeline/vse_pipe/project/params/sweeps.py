"""Values of runs by address, such as ``loss.margin``, for ``report.sweeps``."""

from collections.abc import Iterator
from typing import Any

from vse_pipe.core.strict import Problem, Strict
from vse_pipe.project.params.schema import EPOCH
from vse_pipe.project.params.typed import Member, Params

# Entries of a run that name a node; their values are the options of the node's member.
_NODES = {"dataset": "datasets", "features": "features", "texts": "texts", "noise": "noises"}


def value(params: Params, run: str, x: str) -> Any:
    """The number at ``x`` in a run, or in its first seed: the seeds differ in nothing else. None
    where there is none."""
    key, _, option = x.partition(".")
    part = getattr(params.runs[params.models(run)[0]], key, None)
    if key in _NODES and (node := getattr(params, _NODES[key]).get(part)):
        part = next(entry for entry in vars(node).values() if isinstance(entry, Member))
    options = part.params if isinstance(part, Member) else part
    number = flat(options.model_dump()).get(option) if isinstance(options, Strict) else None
    return number if type(number) in (int, float) else None


def problems(params: Params) -> Iterator[Problem]:
    """Runs without a number at the address of their sweep."""
    for name, sweep in params.report.sweeps.items():
        for run in sweep.runs if sweep.x != EPOCH else ():
            if value(params, run, sweep.x) is None:
                yield ("report", "sweeps", name, "x"), f"run '{run}' has no number at '{sweep.x}'"


def flat(values: dict, prefix: str = "") -> dict[str, Any]:
    """The leaves of nested dictionaries, with keys ``outer.inner``."""
    leaves: dict[str, Any] = {}
    for key, value in values.items():
        leaves |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return leaves
