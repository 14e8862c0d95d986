"""Fusion of several models' scores of a query: by rank, or by distance from the mean."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse_pipe.core.errors import InputError
from vse_pipe.ranking.fragments import Several, weighted

# Cormack et al.'s constant, which limits the weight of the first places.
RRF_K = 60


@dataclass(frozen=True)
class Fused:
    """Replaces a similarity where scores depend on all items of a query: ``Scores.from_sides`` calls ``combine`` query by
    query, in either direction."""

    similarities: Sequence[Callable]
    rule: str

    def __call__(self, images: Several, texts: Several) -> Float[Tensor, "images texts"]:
        """Images are the queries; ``texts`` are all items."""
        sides = zip(self.similarities, images.parts, texts.parts, strict=True)
        return self.combine(images.weights)(score(image, text) for score, image, text in sides)

    def combine(self, weights: Sequence[float] | None) -> Callable[[Iterable[Tensor]], Tensor]:
        """A function of the models' strips. weights: None for the plain mean."""
        shares = weights or [1 / len(self.similarities)] * len(self.similarities)
        return lambda strips: weighted(map(RULES[self.rule], strips), shares)


def reciprocal_ranks(scores: Float[Tensor, "rows items"]) -> Float[Tensor, "rows items"]:
    """``1 / (60 + rank)`` of each item in its row; the best has rank 1.

    Cormack, Clarke and Buettcher, Reciprocal Rank Fusion, SIGIR 2009. The paper leaves ties open; here equal scores all
    get the best rank. So nothing depends on the order of items, and a model with constant scores has no influence.
    Raises InputError on scores that are not finite.
    """
    must_be_finite(scores)
    return 1.0 / (RRF_K + ranks(scores)).to(scores)


def ranks(scores: Float[Tensor, "rows items"]) -> Int[Tensor, "rows items"]:
    """1 plus the number of items in the row that score higher; int32."""
    ordered = scores.sort(dim=1).values
    lower = torch.searchsorted(ordered, scores.contiguous(), right=True, out_int32=True)
    return scores.shape[1] + 1 - lower


def standardised(scores: Float[Tensor, "rows items"]) -> Float[Tensor, "rows items"]:
    """Each row minus its mean, divided by its standard deviation (population); 0 for a row of equal scores.

    The z-score fusion of Renda and Straccia, Web metasearch, SAC 2003, over all items instead of a result list. Raises
    InputError on scores that are not finite.
    """
    must_be_finite(scores)
    spread, mean = torch.std_mean(scores, dim=1, correction=0, keepdim=True)
    is_constant = scores.amax(dim=1, keepdim=True) == scores.amin(dim=1, keepdim=True)
    return (scores - mean).div_(spread.masked_fill(is_constant, torch.inf))


RULES: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda scores: scores,
    "zscore": standardised,
    "rrf": reciprocal_ranks,
}


def must_be_finite(scores: Tensor) -> None:
    """Raises InputError for scores that are not finite, which ranks would hide."""
    if not bool(scores.isfinite().all()):
        raise InputError("a model of the ensemble gives scores that are not finite; embed its run again")
