"""How criteria are written: ``is``, a rescoring; ``rgm``, a matching; ``is+rgm``, the second on top of the first."""

from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import INFERENCES


def parts(criterion: str) -> list[str]:
    return criterion.split("+")


def matches(criterion: str) -> bool:
    """Does it end in a matching?"""
    return INFERENCES.traits(parts(criterion)[-1]).matches


def ranked_under(params: Params, name: str) -> list[str]:
    """The criteria of the grid that rank a run or ensemble: all, but of a cascade no matching, since its scores are on one
    scale for a query only."""
    node = params.ensembles.get(name)
    cascade = node is not None and node.cascade is not None
    return [one for one in params.grid.inferences if not (cascade and matches(one))]


def options(params: Params, criterion: str) -> dict:
    """What params.yaml says of its parts, without grids of values to choose from."""
    sections = [params.inference[name].model_dump(mode="json") for name in parts(criterion) if name in params.inference]
    return {key: value for section in sections for key, value in section.items() if not key.endswith("_grid")}


def made_with(metrics: dict) -> dict[str, dict]:
    """The options of an evaluation by direction, without those that validation data chose. metrics: its metrics.json."""
    made, tuned = metrics.get("parameters", {}), metrics.get("tuned", {})
    return {
        direction: {key: value for key, value in values.items() if key not in tuned.get(direction, {})}
        for direction, values in made.items()
    }


def objection(criterion: str) -> str | None:
    """What is wrong with the way in which the parts go together. Raises UnknownMember for an unknown part."""
    names = parts(criterion)
    found = _objection(names, [INFERENCES.traits(name).matches for name in names])
    return f"inference criterion '{criterion}': {found}" if found else None


def _objection(names: list[str], matching: list[bool]) -> str | None:
    if len(names) > 2:
        return f"{len(names)} parts; give one rescoring and one matching at most, such as is+rgm"
    if matching == [True, True]:
        return "two matchings; the first leaves no scores for the second"
    if matching == [True, False]:
        return f"a matching comes last; write '{names[1]}+{names[0]}'"
    if matching == [False, False]:
        return "two rescorings; combine one with a matching, such as is+rgm"
    if matching == [False, True] and not INFERENCES.traits(names[0]).comparable_rows:
        return f"the rows of {names[0]} are on different scales and a matching compares rows; use is+{names[1]}"
    return None
