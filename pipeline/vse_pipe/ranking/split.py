"""The images and captions of a split, and where a query bank comes from."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.fragments import Several, Sides, plain, pooled, take
from vse_pipe.ranking.recall import Relevance, Truth
from vse_pipe.ranking.scores import Scores, Similarity


@dataclass(frozen=True)
class Split:
    """image_ids, caption_ids, caption_images: int64; images, captions: float32 vectors of the same
    width, or fragments.

    relevance: correct pairs; without it a caption is correct for its image and the image for its
    captions."""

    image_ids: np.ndarray
    caption_ids: np.ndarray
    caption_images: np.ndarray
    images: Sides
    captions: Sides
    relevance: Relevance | None = None

    def fold(self, images: slice) -> "Split":
        """A slice of the images with their captions, both in the file's order."""
        ids = self.image_ids[images]
        rows = np.flatnonzero(np.isin(self.caption_images, ids))
        captions = self.caption_ids[rows], self.caption_images[rows]
        return Split(ids, *captions, self.images[images], take(self.captions, torch.from_numpy(rows)), self.relevance)

    def part(self, place: int) -> "Split":
        """The split under one of several models."""
        assert isinstance(self.images, Several)
        assert isinstance(self.captions, Several)
        return replace(self, images=self.images.parts[place], captions=self.captions.parts[place])

    def scores(self, similarity: Similarity, memory: int, sets: int = 1) -> Scores:
        """Images as queries; transposed captions. memory (MiB), sets: as ``Scores.from_sides``."""
        return Scores.from_sides(self.images, self.captions, similarity, memory=memory, sets=sets)

    def truth(self, direction: str) -> Truth:
        """Correct items of all queries; under ``relevance`` a query may have none."""
        if self.relevance is not None:
            return Truth.by_pairs(*self.sides(direction), *self.relevance.pairs[direction])
        sides = (self.image_ids, self.caption_images)
        return Truth.by_image(*(sides if direction == "image_to_text" else reversed(sides)))

    def clusters(self, direction: str) -> np.ndarray:
        """The image of each judged query: queries of one image are not independent."""
        return (self.image_ids if direction == "image_to_text" else self.caption_images)[self._judged(direction)]

    def ids(self, direction: str) -> tuple[np.ndarray, np.ndarray]:
        """Ids of the judged queries, which have a correct item, and of all items."""
        queries, items = self.sides(direction)
        return queries[self._judged(direction)], items

    def sides(self, direction: str) -> tuple[np.ndarray, np.ndarray]:
        """Ids of all queries and of all items."""
        sides = (self.image_ids, self.caption_ids)
        return sides if direction == "image_to_text" else sides[::-1]

    def _judged(self, direction: str) -> np.ndarray | slice:
        return slice(None) if self.relevance is None else self.truth(direction).judged()


# evaluate.bank: the ranked queries themselves, whatever their split is called.
OWN = "test"


@dataclass(frozen=True)
class BankSource:
    """name: in the metrics; split: its images and captions, None for the ranked queries."""

    name: str
    split: Split | None = None

    @property
    def is_transductive(self) -> bool:
        """Whether the ranked queries correct the scores of a direction."""
        return not all(map(self.has_queries, ("image_to_text", "text_to_image")))

    def has_queries(self, direction: str) -> bool:
        """Whether it has queries for the direction: it may hold one side alone."""
        return self.split is not None and len(self.split.sides(direction)[0]) > 0

    def bank(
        self, fold: Split, scores: Scores, direction: str, similarity: Similarity, memory: int, sets: int = 1
    ) -> Bank:
        """The bank for one direction of ``fold`` with these scores: the ranked queries where it has
        none for it. memory (MiB), sets: see ``Scores.from_sides``."""
        of_images = direction == "image_to_text"
        source = self.split if self.split is not None and self.has_queries(direction) else fold

        def gallery() -> Scores:
            sides = (source.captions, fold.captions) if of_images else (source.images, fold.images)
            compare = similarity if plain(sides[0]) else cosine
            # There is only one pass, so nothing is cached.
            return Scores.from_sides(pooled(sides[0]), pooled(sides[1]), compare, memory=memory, sets=0)

        if source is fold:
            return Bank(scores, True, gallery)
        if of_images:
            queries = Scores.from_sides(source.images, fold.captions, similarity, memory=memory, sets=sets)
        else:
            forward = Scores.from_sides(fold.images, source.captions, similarity, memory=memory, sets=sets)
            queries = forward.transposed()
        return Bank(queries, False, gallery)


def cosine(left: Tensor, right: Tensor) -> Tensor:
    """Inner products of unit vectors of the same kind."""
    return left @ right.T
