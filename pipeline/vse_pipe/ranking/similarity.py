"""Similarities: the member of a family with its weights, and the fusion of several models' scores."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vse_pipe.core.errors import InputError
from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.ranking.alignment import OfPairs
from vse_pipe.ranking.fragments import Several, Words, weighted


@dataclass(frozen=True)
class OfFragments:
    """A similarity of stored fragments. score: all images with all captions; pairs: the function for ``over_pairs``."""

    score: Callable[[Tensor, Words], Tensor]
    pairs: Callable[[Tensor, Words], OfPairs]

    def __call__(self, images: Tensor, texts: Words) -> Tensor:
        return self.score(images, texts)


class Similarity(nn.Module):
    """(images, dim) and (texts, dim), or fragments (images, R, dim) and ``Words``, to (images, texts)."""

    def __init__(self, member: Member, network: nn.Module | None = None) -> None:
        super().__init__()
        module = SIMILARITIES.load(member.name)
        self.member = member
        self.fragments = SIMILARITIES.traits(member.name).fragments
        self.network = network
        self._score = module.score

    def forward(self, images: Tensor, texts: Tensor | Words) -> Float[Tensor, "images texts"]:
        if self.network is None:
            return self._score(images, texts, self.member.params)
        return self._score(images, texts, self.member.params, self.network)


def build_similarity(member: Member, dim: int, regions: int, rng: torch.Generator) -> Similarity:
    """dim: of a fragment; regions: of an image. A member that learns draws its weights from ``rng``."""
    if not SIMILARITIES.traits(member.name).learns:
        return Similarity(member)
    return Similarity(member, SIMILARITIES.load(member.name).network(member.params, dim, regions, rng))


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
    return 1.0 / (RRF_K + best_tied_ranks(scores)).to(scores)


def best_tied_ranks(scores: Float[Tensor, "rows items"]) -> Int[Tensor, "rows items"]:
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
