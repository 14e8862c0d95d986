"""Images and captions that are compared by more than one vector: by their fragments, or by several models at once."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse_pipe.ranking.engine.words import Words


@dataclass(frozen=True)
class Several:
    """The same n images or captions under several models, one part a model. weights: of each, with a sum of 1; None: the
    plain mean."""

    parts: tuple["Sides", ...]
    weights: tuple[float, ...] | None = None

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, rows: slice) -> "Several":
        return replace(self, parts=tuple(part[rows] for part in self.parts))

    @property
    def device(self) -> torch.device:
        return self.parts[0].device


# One side of a set: (n, dim) vectors, (n, R, dim) regions, the words of n captions, or what several models made of it.
Sides = Tensor | Words | Several


@dataclass(frozen=True)
class MeanScore:
    """The mean of the models' scores, as SCAN and SGRAF combine two models that were trained apart, by the weights of the
    sides."""

    similarities: Sequence[Callable]

    def __call__(self, images: Several, texts: Several) -> Float[Tensor, "images texts"]:
        sides = zip(self.similarities, images.parts, texts.parts, strict=True)
        return mean([score(image, text) for score, image, text in sides], images.weights)


def mean(scores: Sequence[Float[Tensor, "*cells"]], weights: Sequence[float] | None) -> Float[Tensor, "*cells"]:
    """weights: None for the plain mean."""
    return torch.stack(list(scores)).mean(dim=0) if weights is None else weighted(scores, weights)


def weighted(scores: Iterable[Float[Tensor, "*cells"]], weights: Sequence[float]) -> Float[Tensor, "*cells"]:
    """Their sum, each times its weight; one at a time, so that no more than two are there at once."""
    total = None
    for one, weight in zip(scores, weights, strict=True):
        total = weight * one if total is None else total.add_(one, alpha=weight)
    assert total is not None
    return total


def plain(side: Sides) -> TypeGuard[Tensor]:
    """One vector each?"""
    return isinstance(side, Tensor) and side.ndim == 2


def take(side: Sides, rows: Int[Tensor, " chosen"]) -> Sides:
    """The images or captions at these places."""
    if isinstance(side, Several):
        return replace(side, parts=tuple(take(part, rows) for part in side.parts))
    return side.take(rows) if isinstance(side, Words) else side[rows.to(side.device)]


def pooled(side: Sides) -> Float[Tensor, "rows dim"]:
    """One unit vector for each image or caption: the mean of its fragments.

    What criteria that compare items with items use where the model itself can only compare images with captions. Vectors
    stay as they are. Of several models the vectors lie side by side, so that an inner product is the mean of theirs, by
    the weights of the side.
    """
    if isinstance(side, Several):
        parts = [pooled(part) for part in side.parts]
        if side.weights is None:
            return torch.cat(parts, dim=1) / len(parts) ** 0.5
        return torch.cat([part * weight**0.5 for part, weight in zip(parts, side.weights, strict=True)], dim=1)
    if plain(side):
        return side
    if isinstance(side, Words):
        owners = torch.arange(len(side)).repeat_interleave(side.lengths).to(side.device)
        sums = side.vectors.new_zeros(len(side), side.vectors.shape[1]).index_add_(0, owners, side.vectors)
    else:
        sums = side.sum(dim=1)
    return torch.nn.functional.normalize(sums, dim=1)


def same(
    one: Sides, left: Sequence[int] | np.ndarray, other: Sides, right: Sequence[int] | np.ndarray
) -> Bool[Tensor, " pairs"]:
    """Is item ``left[i]`` of the one the item ``right[i]`` of the other, number by number?"""
    ours, theirs = take(one, torch.as_tensor(left)), take(other, torch.as_tensor(right))
    if isinstance(ours, Several) and isinstance(theirs, Several) and len(ours.parts) == len(theirs.parts):
        places = range(len(ours))
        each = [same(a, places, b, places) for a, b in zip(ours.parts, theirs.parts, strict=True)]
        return torch.stack(each).all(dim=0)
    if isinstance(ours, Words) and isinstance(theirs, Words):
        alike = (ours.lengths == theirs.lengths).nonzero()[:, 0]
        equal = torch.zeros(len(ours), dtype=torch.bool)
        ours, theirs = ours.take(alike), theirs.take(alike)
        if ours.vectors.shape == theirs.vectors.shape:
            differs = (ours.vectors != theirs.vectors).any(dim=1).cpu().int()
            owners = torch.arange(len(ours)).repeat_interleave(ours.lengths)
            equal[alike] = torch.zeros(len(ours), dtype=torch.int32).index_add_(0, owners, differs) == 0
        return equal
    if not isinstance(ours, Tensor) or not isinstance(theirs, Tensor) or ours.shape != theirs.shape:
        return torch.zeros(len(ours), dtype=torch.bool)
    return (ours == theirs).flatten(1).all(dim=1).cpu()


def tables(side: Sides) -> list[Float[Tensor, "rows _"]]:
    """All vectors of a side, one table for each model."""
    if isinstance(side, Several):
        return [table for part in side.parts for table in tables(part)]
    return [side.vectors if isinstance(side, Words) else side.flatten(0, -2)]
