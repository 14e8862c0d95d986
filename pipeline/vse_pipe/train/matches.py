"""Which images and texts of the training pairs belong together."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from vse_pipe.ranking.fragments import blocks, spans

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Matches:
    """The distinct images and texts of a batch, and their matches.

    images, texts: image number and text number of each pair; positives: matching cells, also
    outside of the pairs; image_kin: images with a common text, text_kin: texts with a common image
    (Eqs. 3 and 4 of Wang et al., CVPR 2016). Each image and each text is its own kin. All are on
    the CPU, because the size of what is chosen by them would have to be waited for on a GPU.
    """

    images: Int[Tensor, " pairs"]
    texts: Int[Tensor, " pairs"]
    positives: Bool[Tensor, "images texts"]
    image_kin: Bool[Tensor, "images images"]
    text_kin: Bool[Tensor, "texts texts"]

    @classmethod
    def by_owner(cls, owners: Int[Tensor, " pairs"]) -> "Matches":
        """Matches where every text has one image; owners: the id of that image, on the CPU."""
        ids, images = owners.unique(return_inverse=True)
        identity = torch.eye(len(ids), dtype=torch.bool, device=owners.device)
        texts = torch.arange(len(owners), device=owners.device)
        return cls(images, texts, ids[:, None] == owners[None, :], identity, owners[:, None] == owners[None, :])

    @property
    def same(self) -> Bool[Tensor, "pairs pairs"]:
        """Matching cells of the images and texts of the pairs."""
        return self.positives[self.images][:, self.texts]


@dataclass(frozen=True)
class Incidence:
    """Which texts match which images, where texts with equal words are one text.

    ids: (images,) ids of the image numbers, rising; images, texts: (pairs,) image number and text
    number of each pair; by_image: (images, texts) counts of their matches, a sparse array of scipy;
    by_text: its transpose.
    """

    ids: np.ndarray
    images: np.ndarray
    texts: np.ndarray
    by_image: Any
    by_text: Any

    @classmethod
    def from_pairs(
        cls, owners: np.ndarray, texts: np.ndarray, more_owners: np.ndarray = _NONE, more_texts: np.ndarray = _NONE
    ) -> "Incidence":
        """owners, texts: (pairs,) ids of images and texts; more_owners, more_texts: further matches
        that are no pairs."""
        from scipy import sparse  # not needed where a text has one image

        ids, images = np.unique(np.concatenate([owners, more_owners]), return_inverse=True)
        _, texts = np.unique(np.concatenate([texts, more_texts]), return_inverse=True)
        cells, pairs = sparse.csr_array((np.ones(len(images), np.int32), (images, texts))), len(owners)
        return cls(ids, images[:pairs], texts[:pairs], cells, cells.T.tocsr())

    def matches(self, pairs: np.ndarray) -> Matches:
        """Matches of the batch of these pairs. Two images are kin when a text matches both, also a
        text outside of the batch; the same holds for texts."""
        (images, image), (texts, text) = (
            np.unique(side[pairs], return_inverse=True) for side in (self.images, self.texts)
        )
        image_cells, text_cells = self.by_image[images], self.by_text[texts]
        cells = (image_cells[:, texts], image_cells @ image_cells.T, text_cells @ text_cells.T)
        masks = (torch.from_numpy(cell.toarray() > 0) for cell in cells)
        return Matches(*map(torch.from_numpy, (image, text)), *masks)


def shuffled(pairs: np.ndarray, size: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The pairs in random order, in batches of ``size``. A last single pair, which has no negative,
    is left out, as in the authors' code."""
    order = rng.permutation(pairs)
    parts = [order[part] for part in blocks(len(order), size)]
    return [part for part in parts if len(part) > 1]


@dataclass(frozen=True)
class Groups:
    """Pairs grouped by image. owner: (pairs,) image number of each pair, from 0 on; pairs:
    (pairs,) sorted by it; starts: (groups + 1,) start of each group in ``pairs``."""

    owner: np.ndarray
    pairs: np.ndarray
    starts: np.ndarray

    @classmethod
    def by_id(cls, owners: np.ndarray) -> "Groups":
        """Groups of equal ``owners``, (pairs,) any ids."""
        _, owner, sizes = np.unique(owners, return_inverse=True, return_counts=True)
        return cls(owner, np.argsort(owner, kind="stable"), np.concatenate([[0], sizes.cumsum()]))

    def draw(
        self, images: np.ndarray, limit: int, rng: np.random.Generator, without: np.ndarray | None = None
    ) -> np.ndarray:
        """Up to ``limit`` random pairs of each image, in the order of ``images``; no pair of
        ``without``."""
        sizes = self.starts[images + 1] - self.starts[images]
        place = np.repeat(np.arange(len(images)), sizes)
        candidates = self.pairs[spans(self.starts[images], sizes)]
        if without is not None:
            free = ~np.isin(candidates, without)
            candidates, place = candidates[free], place[free]
        order = np.lexsort([rng.random(len(candidates)), place])
        candidates, place = candidates[order], place[order]
        return candidates[np.arange(len(place)) - np.searchsorted(place, place) < limit]
