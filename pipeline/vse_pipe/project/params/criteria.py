"""The names in ``grid.inferences``: a member, or ``rescoring+matching``."""

from vse_pipe.core.errors import UnknownMember
from vse_pipe.project.registry import INFERENCES


def parts(criterion: str) -> list[str]:
    """The members in the name. Raises UnknownMember for parts that do not exist or fit together."""
    names = criterion.split("+")
    traits = [INFERENCES.traits(name) for name in names]
    if len(names) > 1 and ([trait.matches for trait in traits] != [False, True] or not traits[0].comparable_rows):
        text = "expected one, or a rescoring with scores of one scale before a matching, such as is+rgm"
        raise UnknownMember(f"inference criterion '{criterion}': {text}")
    return names


def matches(criterion: str) -> bool:
    """Whether it ends in a matching."""
    return INFERENCES.traits(parts(criterion)[-1]).matches


def checked(criterion: str) -> str:
    return "+".join(parts(criterion))
