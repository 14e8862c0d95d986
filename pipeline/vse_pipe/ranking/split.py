"""The images and captions of one split on the device, and its folds."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.ranking.fragments import Several, Sides, take
from vse_pipe.ranking.metrics.recall import Relevance, Truth
from vse_pipe.ranking.scores import Scores, Similarity

# Largest share of the mean squared length that is not the common mean.
_COLLAPSED = 1e-4


@dataclass(frozen=True)
class Split:
    """image_ids, caption_ids, caption_images: int64; images, captions: float32 vectors of the same width, or fragments.

    relevance: correct pairs; without it a caption is correct for its image and the image for its captions.
    """

    image_ids: np.ndarray
    caption_ids: np.ndarray
    caption_images: np.ndarray
    images: Sides
    captions: Sides
    relevance: Relevance | None = None

    def fold(self, images: slice) -> "Split":
        """Consecutive images with their captions, both in the file's order."""
        ids = self.image_ids[images]
        rows = np.flatnonzero(np.isin(self.caption_images, ids))
        captions = self.caption_ids[rows], self.caption_images[rows]
        chosen = take(self.captions, torch.from_numpy(rows))
        return Split(ids, *captions, self.images[images], chosen, self.relevance)

    def part(self, place: int) -> "Split":
        """The split under one of several models."""
        assert isinstance(self.images, Several)
        assert isinstance(self.captions, Several)
        return replace(self, images=self.images.parts[place], captions=self.captions.parts[place])

    def scores(self, similarity: Similarity, memory: int, sets: int = 1) -> Scores:
        """Images as queries; the transpose has captions as queries. memory (MiB) and sets: see ``Scores.from_sides``."""
        return Scores.from_sides(self.images, self.captions, similarity, memory=memory, sets=sets)

    def truth(self, direction: str) -> Truth:
        """Correct items of all queries; under ``relevance`` a query may have none."""
        if self.relevance is not None:
            return Truth.by_pairs(*self.sides(direction), *self.relevance.pairs[direction])
        sides = (self.image_ids, self.caption_images)
        return Truth.by_image(*(sides if direction == "image_to_text" else reversed(sides)))

    def clusters(self, direction: str) -> np.ndarray:
        """The image of each judged query: queries of one image are not independent."""
        images = self.image_ids if direction == "image_to_text" else self.caption_images
        return images[self._judged(direction)]

    def ids(self, direction: str) -> tuple[np.ndarray, np.ndarray]:
        """Ids of the judged queries, which have a correct item, and of all items."""
        queries, items = self.sides(direction)
        return queries[self._judged(direction)], items

    def unjudged(self, direction: str) -> int:
        """The number of queries without a correct item."""
        return len(self.sides(direction)[0]) - len(self.ids(direction)[0])

    def sides(self, direction: str) -> tuple[np.ndarray, np.ndarray]:
        """Ids of all queries and of all items."""
        sides = (self.image_ids, self.caption_ids)
        return sides if direction == "image_to_text" else sides[::-1]

    def _judged(self, direction: str) -> np.ndarray | slice:
        return slice(None) if self.relevance is None else self.truth(direction).judged()


def collapsed(vectors: Float[Tensor, "rows dim"]) -> bool:
    """Whether all vectors are nearly equal."""
    energy = vectors.double().square().sum(dim=1).mean()
    spread = (vectors.double() - vectors.double().mean(dim=0)).square().sum(dim=1).mean()
    return bool(spread <= _COLLAPSED * energy)
