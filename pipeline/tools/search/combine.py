"""The scores of a query of several parts."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from pipeline.core.errors import InputError, UsageError
from pipeline.ranking.engine.fragments import Several, Sides, plain
from pipeline.tools.search.gallery import Gallery
from pipeline.tools.search.network import Network
from pipeline.tools.search.query import TEXT, TO_IMAGES, Term
from pipeline.tools.search.together import Together

# Below this length a sum of unit vectors is what rounding leaves of nothing.
_NOTHING = 1e-5


def native(part: Term, direction: str) -> bool:
    """Is it of the kind that the model compares with what is searched?"""
    return (part.kind == TEXT) == (direction == TO_IMAGES)


def joint(network: Network | Together) -> bool:
    """Do images and captions lie in one space of unit vectors, where everything can be compared with everything?"""
    return all(map(_joint, network.galleries))


def scores(
    sides: Sequence[Sides],
    parts: Sequence[Term],
    direction: str,
    in_one_space: bool,
    score: Callable[[Sides], Float[Tensor, " items"]],
) -> Float[Tensor, " items"]:
    """Of every item, before a criterion corrects them. sides: of each part, one row; score: of one side.

    One part that the model compares with the items has the model's score. In one space several parts are one query, the
    sum of their unit vectors times their weights, brought to unit length; of several networks in the space of each.
    Elsewhere the score is ``sum(w * s) / sum(|w|)`` over the parts, all of which the model must compare with the items.
    Raises UsageError where it cannot, InputError where nothing is left of the sum.
    """
    weights = [part.weight for part in parts]
    comparable = all(native(part, direction) for part in parts)
    if len(parts) == 1 and comparable:
        return score(sides[0])
    if in_one_space:
        return score(_sum(sides, weights))
    if not comparable:
        found, wanted = ("images", "text") if direction == TO_IMAGES else ("captions", "pictures")
        raise UsageError(
            f"this model compares images with captions alone, not in one space of vectors: its {found} are searched with {wanted}"
        )
    return sum(weight * score(side) for side, weight in zip(sides, weights, strict=True)) / sum(map(abs, weights))


def _joint(gallery: Gallery) -> bool:
    return gallery.about.get("similarity") == "cosine" and not gallery.holds_fragments


def _sum(sides: Sequence[Sides], weights: Sequence[float]) -> Sides:
    first = sides[0]
    if isinstance(first, Several):
        each = zip(*(side.parts for side in sides if isinstance(side, Several)), strict=True)
        return replace(first, parts=tuple(_sum(parts, weights) for parts in each))
    assert all(map(plain, sides))
    units = torch.cat([torch.nn.functional.normalize(side, dim=1) for side in sides if plain(side)])
    total = (units * units.new_tensor(weights)[:, None]).sum(dim=0, keepdim=True)
    length = float(total.norm())
    if length < _NOTHING * max(map(abs, weights)):
        raise InputError("the parts of the query cancel out: nothing is left to look for")
    return total / length
