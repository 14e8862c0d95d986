"""Which images and texts of a batch belong together."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor


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


def first(numbers: Int[Tensor, " pairs"], count: int) -> Int[Tensor, " count"]:
    """The first pair that has each of the numbers 0 ... count - 1."""
    pairs = torch.arange(len(numbers), device=numbers.device)
    return pairs.new_full((count,), len(numbers)).scatter_reduce(0, numbers, pairs, "amin")
