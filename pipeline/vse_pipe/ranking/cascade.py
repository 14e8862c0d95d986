"""Scores of single pairs of an image and a caption, and cascades of two models."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse_pipe.core import console
from vse_pipe.core.errors import UsageError
from vse_pipe.ranking import fragments
from vse_pipe.ranking.scores import Scores, Similarity, empty_scores, top_k
from vse_pipe.ranking.split import Split

Places = Int[np.ndarray, " pairs"]


def scores(
    split: Split, similarity: Similarity, inner: bool, images: Places, captions: Places, memory: int
) -> Float[np.ndarray, " pairs"]:
    """Scores of single pairs. images, captions: rows of ``split``; inner: the similarity is the
    inner product of the vectors; memory: of ``empty_scores``. Raises UsageError for scores that
    depend on other pairs.

    Inner products are summed in float64 and rounded to float32, so that captions with the same
    vector have the same score, whatever their place."""
    if isinstance(similarity, fragments.Fused | Cascade):
        raise UsageError("a cascade, and a fusion other than the mean, have no score of a pair alone")
    if not (inner and fragments.plain(split.images) and fragments.plain(split.captions)):
        pairs = ScoredPairs(split.images, split.captions, similarity, memory)
        return pairs.score(torch.from_numpy(images), torch.from_numpy(captions)).cpu().numpy()
    values = np.empty(len(images), np.float32)
    for part in fragments.blocks(len(images), 1 << 14):
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
    """Scores of single pairs, computed on first use and kept. memory: of ``empty_scores``."""

    def __init__(self, images: fragments.Sides, captions: fragments.Sides, similarity: Similarity, memory: int) -> None:
        self._images, self._captions, self._similarity, self._memory = images, captions, similarity, memory

    @cached_property
    def _matrix(self) -> Float[Tensor, "images captions"]:
        """NaN where a pair is not scored yet."""
        shape = len(self._images), len(self._captions)
        return empty_scores(shape, self._memory, self._images.device).fill_(torch.nan)

    def score(self, images: Int[Tensor, "..."], captions: Int[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Each image is compared with all its captions at once. Raises InputError on scores that
        are not finite."""
        # A matrix in a file is on the CPU, wherever the images are.
        matrix, device = self._matrix, images.device
        images, captions = images.to(matrix.device), captions.to(matrix.device)
        cells = (images * len(self._captions) + captions)[matrix[images, captions].isnan()].unique()
        rows, counts = (cells // len(self._captions)).unique_consecutive(return_counts=True)
        lots = (cells % len(self._captions)).split(counts.tolist())
        label = f"scoring {len(cells)} pairs of {len(rows)} images"
        for row, lot in console.track(zip(rows.tolist(), lots, strict=True), len(lots), label):
            with torch.inference_mode():
                sides = self._images[row : row + 1], fragments.take(self._captions, lot)
                (scores,) = self._similarity(*sides)
            fragments.must_be_finite(scores)
            matrix[row, lot] = scores.to(matrix.device)
        return matrix[images, captions].to(device)


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
