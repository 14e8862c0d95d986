"""Scores of a network's items for a query of several parts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64

from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.ranking.fragments import Several, Sides, plain
from vse_pipe.search import query
from vse_pipe.search.network import Network
from vse_pipe.search.query import TO_IMAGES, Term

# Values of vectors in a tile, where a similarity makes copies, and items with fragments in a tile.
_NUMBERS, _TILE = 1 << 24, 2048
# Below this length a sum of unit vectors is only rounding error.
_NOTHING = 1e-5


class Scoring:
    """Scores of a network's items, for several threads."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._is_joint = network.is_joint

    def scores(self, parts: Sequence[Term], sides: Sequence[Sides], direction: str) -> Float32[np.ndarray, " items"]:
        """Scores of the items. sides: one row for each part.

        A single part that the model compares with the items has the model's score. In a joint space
        several parts are one query: the weighted sum of their unit vectors, scaled to unit length.
        Without a joint space the score is ``sum(w * s) / sum(|w|)``
        over the parts. Raises UsageError if the model cannot compare a part with the items,
        InputError if the parts cancel out.
        """
        weights = [part.weight for part in parts]
        comparable = all(is_native(part, direction) for part in parts)
        if len(parts) == 1 and comparable:
            return self._compared(sides[0], direction)
        if self._is_joint:
            return self._compared(_sum(sides, weights), direction)
        if not comparable:
            items, kind = ("images", "text") if direction == TO_IMAGES else ("captions", "pictures")
            raise UsageError(
                f"this model compares images with captions alone, not in one space of vectors: its {items} are searched with {kind}"
            )
        scaled = [weight * self._compared(side, direction) for side, weight in zip(sides, weights, strict=True)]
        return np.asarray(sum(scaled) / sum(map(abs, weights)))

    def _compared(self, side: Sides, direction: str) -> Float32[np.ndarray, " items"]:
        """The model's scores. Images are the first argument of a similarity, captions the
        second."""
        split, similarity = self._network.items, self._network.similarity
        items: Any = split.images if direction == TO_IMAGES else split.captions
        size = max(1, _NUMBERS // items.shape[1]) if plain(items) else _TILE
        tiles = [items[start : start + size] for start in range(0, len(items), size)]
        with torch.inference_mode():
            if direction == TO_IMAGES:
                scores = torch.cat([similarity(tile, side)[:, 0] for tile in tiles])
            else:
                scores = torch.cat([similarity(side, tile)[0] for tile in tiles])
        return scores.cpu().numpy()


def is_native(part: Term, direction: str) -> bool:
    """Does the model compare parts of this kind with the items?"""
    return (part.kind == query.TEXT) == (direction == TO_IMAGES)


def _sum(sides: Sequence[Any], weights: Sequence[float]) -> Any:
    first = sides[0]
    if isinstance(first, Several):
        columns = zip(*(side.parts for side in sides), strict=True)
        return replace(first, parts=tuple(_sum(parts, weights) for parts in columns))
    units = torch.nn.functional.normalize(torch.cat(list(sides)), dim=1)
    total = (units * units.new_tensor(weights)[:, None]).sum(dim=0, keepdim=True)
    length = float(total.norm())
    if length < _NOTHING * max(map(abs, weights)):
        raise InputError("the parts of the query cancel out: nothing is left to look for")
    return total / length


def best_places(scores: Float[np.ndarray, " items"], k: int) -> Int64[np.ndarray, " best"]:
    """Places of the min(k, items) best items, best first, equal scores in the order of the items,
    as in the evaluation. Raises InputError for scores that are not finite."""
    if not np.isfinite(scores).all():
        raise InputError("the model gives scores that are not finite for this query")
    k = min(k, len(scores))
    if not k:
        return np.empty(0, np.int64)
    reach = np.flatnonzero(scores >= np.partition(scores, len(scores) - k)[len(scores) - k])
    return reach[np.argsort(-scores[reach], kind="stable")][:k]
