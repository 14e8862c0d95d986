"""The scores of a query of several parts."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.tools.search.network import Network
from vse_pipe.tools.search.query import TEXT, TO_IMAGES, Term
from vse_pipe.tools.search.together import Together

if TYPE_CHECKING:  # numpy's rows need no torch
    from vse_pipe.ranking.engine.fragments import Sides

# Below this length a sum of unit vectors is what rounding leaves of nothing.
_NOTHING, _SHORTEST = 1e-5, 1e-12


def native(part: Term, direction: str) -> bool:
    """Is it of the kind that the model compares with what is searched?"""
    return (part.kind == TEXT) == (direction == TO_IMAGES)


def must_be_native(parts: Sequence[Term], direction: str) -> None:
    """Raises UsageError unless there is one part, compared as in training: others have scores of another scale."""
    if len(parts) > 1 or not native(parts[0], direction):
        raise UsageError(
            "a probability of a match is that of one sentence and an image, or of one picture and a caption; leave it out for "
            "other queries"
        )


def joint(network: Network | Together) -> bool:
    """Do images and captions lie in one space of unit vectors, where everything can be compared with everything?"""
    return all(gallery.inner for gallery in network.galleries)


def scores(
    sides: "Sequence[Sides | np.ndarray]",
    parts: Sequence[Term],
    direction: str,
    in_one_space: bool,
    score: Callable[[Any], Float[np.ndarray, " items"]],
) -> Float[np.ndarray, " items"]:
    """Of every item, before a criterion corrects them. sides: of each part, one row; score: of one side.

    One part that the model compares with the items has the model's score. In one space several parts are one query, the
    sum of their unit vectors times their weights, brought to unit length; of several networks in the space of each.
    Elsewhere the score is ``sum(w * s) / sum(|w|)`` over the parts, all of which the model must compare with the items.
    Raises UsageError where it cannot, InputError where nothing is left of the sum.
    """
    weights = [part.weight for part in parts]
    comparable = all(native(part, direction) for part in parts)
    if in_one_space or (len(parts) == 1 and comparable):
        return score(one(sides, parts, direction))
    if not comparable:
        found, wanted = ("images", "text") if direction == TO_IMAGES else ("captions", "pictures")
        raise UsageError(
            f"this model compares images with captions alone, not in one space of vectors: its {found} are searched with {wanted}"
        )
    each = [weight * score(side) for side, weight in zip(sides, weights, strict=True)]
    return np.asarray(sum(each) / sum(map(abs, weights)))


def one(sides: "Sequence[Sides | np.ndarray]", parts: Sequence[Term], direction: str) -> Any:
    """The one row of a query in one space: as it is of one part that the model compares with the items, else the sum."""
    if len(parts) == 1 and native(parts[0], direction):
        return sides[0]
    return _sum(sides, [part.weight for part in parts])


def _sum(sides: Sequence[Any], weights: Sequence[float]) -> Any:
    first = sides[0]
    if hasattr(first, "parts"):
        each = zip(*(side.parts for side in sides), strict=True)
        return replace(first, parts=tuple(_sum(parts, weights) for parts in each))
    rows = [np.asarray(side if isinstance(side, np.ndarray) else side.cpu()) for side in sides]
    units = np.concatenate([row / max(float(np.linalg.norm(row)), _SHORTEST) for row in rows])
    total = (units * np.array(weights, np.float32)[:, None]).sum(axis=0, keepdims=True)
    length = float(np.linalg.norm(total))
    if length < _NOTHING * max(map(abs, weights)):
        raise InputError("the parts of the query cancel out: nothing is left to look for")
    found = total / length
    return found if isinstance(first, np.ndarray) else first.new_tensor(found)
