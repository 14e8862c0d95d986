"""Two models in turn: the best of each query by the first, put in order by the second, which scores no other pair."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pipeline.core import console
from pipeline.ranking.engine.fragments import Several, Sides, take
from pipeline.ranking.engine.fusion import must_be_finite, ranks
from pipeline.ranking.engine.matrix import empty
from pipeline.ranking.engine.scores import Scores, Similarity
from pipeline.ranking.engine.top import top_k

Pick = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Cascade:
    """Stands where a similarity does; k: how many of each query the second orders. ``trials`` lets criteria correct the first."""

    first: Similarity
    second: Similarity
    k: int

    def __call__(self, images: Several, texts: Several) -> Float[Tensor, "images texts"]:
        """Of images as queries and no other texts than these."""
        scores = Scores.of(images.parts[0], texts.parts[0], self.first)
        pairs = ScoredPairs(images.parts[1], texts.parts[1], self.second, 0)
        return torch.cat([block for _, block in cascaded(scores, pairs.of, self.k).blocks()])


class ScoredPairs:
    """Scores of single pairs, each computed when it is first asked for, by whatever direction and criterion, and kept. memory:
    as of ``ScoreMatrix``."""

    def __init__(self, images: Sides, captions: Sides, similarity: Similarity, memory: int) -> None:
        self.scored = 0
        self._images, self._captions, self._similarity, self._memory = images, captions, similarity, memory

    @cached_property
    def _matrix(self) -> Float[Tensor, "images captions"]:
        """NaN where nothing was asked for yet."""
        return empty((len(self._images), len(self._captions)), self._memory, self._images.device).fill_(torch.nan)

    def of(self, images: Int[Tensor, "..."], captions: Int[Tensor, "..."]) -> Float[Tensor, "..."]:
        """An image at a time with all its captions, since that is what similarities compare. Raises InputError on scores that
        are not finite."""
        missing = self._matrix[images, captions].isnan()
        asked = (images * len(self._captions) + captions)[missing].unique()
        owners, counts = (asked // len(self._captions)).unique_consecutive(return_counts=True)
        lots = (asked % len(self._captions)).split(counts.tolist())
        label = f"scoring {len(asked)} pairs of {len(owners)} images"
        for image, lot in console.track(zip(owners.tolist(), lots, strict=True), len(lots), label):
            scores = self._similarity(self._images[image : image + 1], take(self._captions, lot)).detach()
            must_be_finite(scores)
            self._matrix[image, lot] = scores[0]
        self.scored += len(asked)
        return self._matrix[images, captions]

    def turned(self, captions: Int[Tensor, "..."], images: Int[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The same, the caption first."""
        return self.of(images, captions)


def cascaded(first: Scores, pick: Pick, k: int) -> Scores:
    """The k best of each row of ``first`` (equal ones by ascending column) above all others and in the order of ``pick``, equal
    ones at one place; the others as they are. pick: of row and column, the second model's score.

    The k get ``m + s (k - place)``, m the best of the others and s = max(1, |m|): scores that only their order means anything of.
    """
    k = min(k, first.shape[1])
    chosen: list[tuple[Tensor, Tensor]] = []

    def prepared() -> tuple[Int[Tensor, "queries k"], Float[Tensor, "queries k"]]:
        """Columns and the second model's scores of all queries at once: it is asked once."""
        if not chosen:
            found = []
            for rows in first.strips():
                must_be_finite(first.strip(rows))
                found.append(top_k(first.strip(rows), k)[1])
            columns = torch.cat(found)
            owners = torch.arange(len(columns), device=columns.device)[:, None].expand_as(columns)
            chosen.append((columns, pick(owners, columns)))
        return chosen[0]

    def reordered(strip: Float[Tensor, "rows items"], rows: slice) -> Float[Tensor, "rows items"]:
        columns, seconds = (of[rows] for of in prepared())
        others = strip.scatter(1, columns, -torch.inf).amax(dim=1, keepdim=True)
        others = others.where(others.isfinite(), 0.0)  # where all are among the k
        above = (k + 1 - ranks(seconds)).to(strip)
        return strip.scatter(1, columns, others + others.abs().clamp_min(1.0) * above)

    return first.mapped(reordered, first.notes)
