"""Scores of single pairs of an image and a caption, and cascades of two models."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse_pipe.core import console
from vse_pipe.core.errors import UsageError
from vse_pipe.ranking import fragments
from vse_pipe.ranking.alignment import over_pairs
from vse_pipe.ranking.scores import Scores, Similarity, empty_scores, top_k
from vse_pipe.ranking.split import Split

_AT_ONCE = 1 << 14
Places = Int[np.ndarray, " pairs"]


def scores(
    split: Split, similarity: Similarity, inner: bool, images: Places, captions: Places, memory: int
) -> Float[np.ndarray, " pairs"]:
    """Scores of single pairs. images, captions: rows of ``split``; inner: the similarity is the
    inner product of the vectors; memory: of ``empty_scores``. Raises UsageError for scores that
    depend on other pairs.

    Inner products are summed in float64 and rounded to float32. So captions with the same vector
    have the same score, such as captions that differ only in word order under a model that ignores
    it."""
    if isinstance(similarity, fragments.Fused | Cascade):
        raise UsageError("a cascade, and a fusion other than the mean, have no score of a pair alone")
    if not (inner and fragments.plain(split.images) and fragments.plain(split.captions)):
        pairs = ScoredPairs(split.images, split.captions, similarity, memory)
        return pairs.score(torch.from_numpy(images), torch.from_numpy(captions)).cpu().numpy()
    values = np.empty(len(images), np.float32)
    for start in range(0, len(images), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        sides = (
            vectors[torch.from_numpy(places[part]).to(vectors.device)].double()
            for vectors, places in ((split.images, images), (split.captions, captions))
        )
        values[part] = torch.linalg.vecdot(*sides).float().cpu().numpy()
    return values


Pick = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Cascade:
    """Two models: the second orders the k best items of each query under the first."""

    first: Similarity
    second: Similarity
    k: int


class ScoredPairs:
    """Cached scores of single pairs, computed on first use. memory: of ``empty_scores``."""

    def __init__(self, images: fragments.Sides, captions: fragments.Sides, similarity: Similarity, memory: int) -> None:
        self._images, self._captions, self._similarity, self._memory = images, captions, similarity, memory

    @cached_property
    def _score(self) -> Pick:
        with torch.inference_mode():
            return scorer(self._similarity, self._images, self._captions)

    @cached_property
    def _matrix(self) -> Float[Tensor, "images captions"]:
        """NaN where a pair is not scored yet."""
        return empty_scores((len(self._images), len(self._captions)), self._memory, self._images.device).fill_(
            torch.nan
        )

    def score(self, images: Int[Tensor, "..."], captions: Int[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Raises InputError on scores that are not finite."""
        # A matrix in a file is on the CPU, wherever the images are.
        matrix, asking, where = self._matrix, images.device, self._images.device
        images, captions = images.to(matrix.device), captions.to(matrix.device)
        cells = (images * len(self._captions) + captions)[matrix[images, captions].isnan()].unique()
        parts = cells.split(_AT_ONCE) if len(cells) else ()
        scored = map(partial(_scored, self._score, len(self._captions), where), parts)
        tracked = console.track(parts, len(parts), f"scoring {len(cells)} pairs, {_AT_ONCE} at a time")
        for part, scores in zip(tracked, scored, strict=True):
            fragments.must_be_finite(scores)
            matrix[part // len(self._captions), part % len(self._captions)] = scores.to(matrix.device)
        return matrix[images, captions].to(asking)

    def turned(self, captions: Int[Tensor, "..."], images: Int[Tensor, "..."]) -> Float[Tensor, "..."]:
        """``score`` with the caption first."""
        return self.score(images, captions)


def _scored(score: Pick, captions: int, device: torch.device, pairs: Int[Tensor, " pairs"]) -> Float[Tensor, " pairs"]:
    """pairs: places in the flattened matrix of images and captions."""
    with torch.inference_mode():
        return score((pairs // captions).to(device), (pairs % captions).to(device))


def scorer(similarity: Similarity, images: fragments.Sides, captions: fragments.Sides) -> Pick:
    """A function of images and captions (by ascending image) that scores each pair: fragments in
    blocks, vectors one image at a time with all its captions."""
    if isinstance(similarity, fragments.MeanScore):
        assert isinstance(images, fragments.Several)
        assert isinstance(captions, fragments.Several)
        scorers = list(map(scorer, similarity.similarities, images.parts, captions.parts))
        return lambda rows, columns: fragments.mean([score(rows, columns) for score in scorers], images.weights)
    if isinstance(similarity, fragments.Similarity) and similarity.fragments:
        assert isinstance(images, Tensor)
        assert isinstance(captions, fragments.Words)
        return partial(over_pairs, similarity.pairs(images, captions), images, captions)

    def by_image(rows: Int[Tensor, " pairs"], columns: Int[Tensor, " pairs"]) -> Float[Tensor, " pairs"]:
        owners, counts = rows.unique_consecutive(return_counts=True)
        lots = zip(owners.tolist(), columns.split(counts.tolist()), strict=True)
        return torch.cat([similarity(images[row : row + 1], fragments.take(captions, lot))[0] for row, lot in lots])

    return by_image


def cascaded(first: Scores, pick: Pick, k: int) -> Scores:
    """The k best of each row of ``first`` (ties by ascending column) stand above all others, in the
    order of ``pick`` (ties share a place). The other items keep their scores. pick: the second
    model's scores of rows and columns.

    The k items get ``m + s (k - place)`` with m the best other score, s = max(1, |m|); only the
    order matters."""
    k = min(k, first.shape[1])
    chosen: list[tuple[Tensor, Tensor]] = []

    def best(strip: Float[Tensor, "rows items"]) -> Int[Tensor, "rows k"]:
        fragments.must_be_finite(strip)
        return top_k(strip, k)[1]

    def prepared() -> tuple[Int[Tensor, "queries k"], Float[Tensor, "queries k"]]:
        """Columns, and the second model's scores for all queries in one call."""
        if not chosen:
            columns = torch.cat([best(strip) for _, strip in first.blocks()])
            owners = torch.arange(len(columns), device=columns.device)[:, None].expand_as(columns)
            chosen.append((columns, pick(owners, columns)))
        return chosen[0]

    def reordered(strip: Float[Tensor, "rows items"], rows: slice) -> Float[Tensor, "rows items"]:
        columns, seconds = (table[rows] for table in prepared())
        rest = strip.scatter(1, columns, -torch.inf).amax(dim=1, keepdim=True)
        rest = rest.where(rest.isfinite(), 0.0)  # where all are among the k
        above = (k + 1 - fragments.best_tied_ranks(seconds)).to(strip)
        return strip.scatter(1, columns, rest + rest.abs().clamp_min(1.0) * above)

    return first.mapped(reordered, first.notes)
