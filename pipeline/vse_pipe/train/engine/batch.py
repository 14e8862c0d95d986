"""A batch as a loss sees it (``Scored``), what of it matches (``Matches``), and what a loss returns (``LossTerms``)."""

from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse_pipe.core.errors import InputError
from vse_pipe.ranking.fragments import Words


@dataclass(frozen=True)
class Matches:
    """The images and texts of a batch, each once, and what matches.

    images, texts: which of them each pair shows; positives: the cells that match, pairs of the batch or not; image_kin:
    images that a text shares, text_kin: texts that an image shares (Eqs. 3 and 4 of Wang et al., CVPR 2016), everything
    being its own kin.
    """

    images: Int[Tensor, " pairs"]
    texts: Int[Tensor, " pairs"]
    positives: Bool[Tensor, "images texts"]
    image_kin: Bool[Tensor, "images images"]
    text_kin: Bool[Tensor, "texts texts"]

    @classmethod
    def by_owner(cls, owners: Int[Tensor, " pairs"]) -> "Matches":
        """Every text is of one image; owners: that image, by its id."""
        ids, images = owners.unique(return_inverse=True)
        alone = torch.eye(len(ids), dtype=torch.bool, device=owners.device)
        texts = torch.arange(len(owners), device=owners.device)
        return cls(images, texts, ids[:, None] == owners[None, :], alone, owners[:, None] == owners[None, :])

    @property
    def same(self) -> Bool[Tensor, "pairs pairs"]:
        """Cells of the pairs' images and texts that match."""
        return self.positives[self.images][:, self.texts]


@dataclass(frozen=True)
class Scored:
    """A batch of B pairs, pair i being image i shown with text i.

    scores: rows are images, columns texts, positives on the diagonal; same: the cells that are no negatives: the
    diagonal, under ``train.mask_same_image`` every text of the same image, and with ``matches`` all that match; owners:
    the image that each pair shows, by its id; images, texts: the vectors, or regions and words; weights: factors that a
    scheme gives to the cells, None where it gives none; matches: where a text can have several images, else None;
    mined: vectors of further images, each a negative of the text of pair ``mined_for`` and of no other; targets: how far a
    scheme takes each pair for matched, from 0 to 1, None where it judges none; passed: epochs that have been trained, with
    the share of the one at hand.
    """

    scores: Float[Tensor, "pairs pairs"]
    same: Bool[Tensor, "pairs pairs"]
    owners: Int[Tensor, " pairs"]
    images: Float[Tensor, "pairs ..."] | None = None
    texts: Float[Tensor, "pairs dim"] | Words | None = None
    weights: Float[Tensor, "pairs pairs"] | None = None
    matches: Matches | None = None
    mined: Float[Tensor, "mined dim"] | None = None
    mined_for: Int[Tensor, " mined"] | None = None
    targets: Float[Tensor, " pairs"] | None = None
    passed: float = 0.0

    @property
    def trust(self) -> Float[Tensor, " pairs"]:
        """``targets``, and 1 where nobody judges."""
        return torch.ones_like(self.scores[0]) if self.targets is None else self.targets

    @classmethod
    def of(
        cls,
        scores: Tensor,
        owners: Tensor | None = None,
        mask_same_image: bool = False,
        images: Tensor | None = None,
        texts: Tensor | Words | None = None,
        weights: Tensor | None = None,
        matches: Matches | None = None,
        passed: float = 0.0,
    ) -> "Scored":
        """owners: left out, every pair has an image of its own.

        Raises InputError unless ``scores`` is square with at least two pairs: a pair alone has no negative.
        """
        if scores.ndim != 2 or scores.shape[0] != scores.shape[1] or scores.shape[0] < 2:
            raise InputError(f"a loss needs square scores of at least 2 pairs, got shape {tuple(scores.shape)}")
        if owners is None:
            owners = torch.arange(len(scores), device=scores.device)
        same = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
        if mask_same_image:
            same = owners[:, None] == owners[None, :]
        if matches is not None:
            same = same | matches.same
        return cls(scores, same, owners, images, texts, weights, matches, passed=passed)


@dataclass(frozen=True)
class LossTerms:
    """per_pair: (pairs,), the share of each positive pair; parts: named scalars for logs, detached.

    reduction: ``sum`` for the hinge losses (the authors sum over the batch), ``mean`` where the paper divides by B.
    """

    per_pair: Tensor
    reduction: Literal["sum", "mean"]
    parts: dict[str, Tensor] = field(default_factory=dict)

    def total(self) -> Tensor:
        """The scalar to minimise."""
        return self.per_pair.sum() if self.reduction == "sum" else self.per_pair.mean()


def first(numbers: Int[Tensor, " pairs"], count: int) -> Int[Tensor, " count"]:
    """The first pair that has each of the numbers 0 ... count - 1."""
    pairs = torch.arange(len(numbers), device=numbers.device)
    return pairs.new_full((count,), len(numbers)).scatter_reduce(0, numbers, pairs, "amin")
