"""A model's similarity: a member of the family, its options and the weights it learns."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.ranking.alignment import OfPairs
from vse_pipe.ranking.fragments import Words


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
