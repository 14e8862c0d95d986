"""The names of criteria in ``grid.inferences``: a member of the family, or ``rescoring+matching``."""

from vse_pipe.core.errors import UnknownMember
from vse_pipe.project.registry import INFERENCES


def parts(criterion: str) -> list[str]:
    return criterion.split("+")


def matches(criterion: str) -> bool:
    """Whether it ends in a matching."""
    return INFERENCES.traits(parts(criterion)[-1]).matches


def objection(criterion: str) -> str | None:
    """The problem of a criterion's name."""
    names = parts(criterion)
    try:
        traits = [INFERENCES.traits(name) for name in names]
    except UnknownMember as error:
        return str(error)
    problem = None
    if len(names) > 2:
        problem = f"{len(names)} parts; give one rescoring and one matching at most, such as is+rgm"
    elif len(names) == 2:
        first, second = names
        match [trait.matches for trait in traits]:
            case [True, True]:
                problem = "two matchings; the first leaves no scores for the second"
            case [True, False]:
                problem = f"a matching comes last; write '{second}+{first}'"
            case [False, False]:
                problem = "two rescorings; combine one with a matching, such as is+rgm"
            case _ if not traits[0].comparable_rows:
                problem = f"the rows of {first} are on different scales; use is+{second}"
    return f"inference criterion '{criterion}': {problem}" if problem else None
