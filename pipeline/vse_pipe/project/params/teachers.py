"""What is wrong with the teachers of params.yaml."""

from collections.abc import Iterator

from vse_pipe.core.errors import unknown
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import SIMILARITIES


def problems(params: Params) -> Iterator[tuple[str, str]]:
    """(address, what is wrong): an unknown run, one of another data set or without one vector a side, a folder that another
    node has, a circle. Of pairs that exist, see ``inputs.teacher``."""
    for name, node in params.teachers.items():
        address = f"teachers.{name}"
        held = params.noises.get(name)
        if held is not None and held.dataset == node.dataset:
            yield address, f"noises.{name} of the same data set is written to the same folder; rename one of them"
        first = params.models(node.run)[0]
        if first not in params.runs:  # a transfer may have several models too
            known = {*params.runs, *(name for name, models in params.groups.items() if models[0] in params.runs)}
            yield f"{address}.run", unknown("run", node.run, sorted(known))
            continue
        run = params.runs[first]
        if run.dataset != node.dataset:
            yield f"{address}.run", f"'{node.run}' is of data set '{run.dataset}', not '{node.dataset}'"
        if SIMILARITIES.traits(run.similarity.name).fragments or run.similarity.name != "cosine":
            yield (
                f"{address}.run",
                f"'{node.run}' is compared by {run.similarity.name}; a teacher is compared by cosine",
            )
        if name in _before(params, name):
            yield address, "what it is made of is trained on it, in a circle"


def _before(params: Params, name: str) -> set[str]:
    """The teachers that must be there before this one: of its pairs, and of the pairs that its run is trained on."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        node = params.teachers[waiting.pop()]
        models = params.models(node.run)
        pairs = [node.noise, *(params.runs[one].noise for one in models if one in params.runs)]
        new = {one for one in pairs if one in params.teachers} - found
        found |= new
        waiting += new
    return found
