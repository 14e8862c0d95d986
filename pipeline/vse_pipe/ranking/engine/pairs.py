"""Scores of single pairs of an image and a caption."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse_pipe.core.errors import UsageError
from vse_pipe.ranking.engine.cascade import Cascade, ScoredPairs
from vse_pipe.ranking.engine.fragments import plain
from vse_pipe.ranking.engine.fusion import Fused
from vse_pipe.ranking.engine.split import Split

_AT_ONCE = 1 << 14
Places = Int[np.ndarray, " pairs"]


def scores(
    split: Split, similarity: Callable, inner: bool, images: Places, captions: Places, memory: int
) -> Float[np.ndarray, " pairs"]:
    """images, captions: rows of ``split``; inner: the similarity is the inner product of the vectors; memory: as of
    ``ScoreMatrix``. Raises UsageError for scores that depend on other pairs.

    Inner products are summed in float64 and rounded to float32: captions with the same vector, such as those that differ only
    in the order of words to a model that does not see it, have the same score.
    """
    if isinstance(similarity, Fused | Cascade):
        raise UsageError("a cascade, and a fusion other than the mean, have no score of a pair alone")
    if not (inner and plain(split.images) and plain(split.captions)):
        held = ScoredPairs(split.images, split.captions, similarity, memory)
        return held.of(torch.from_numpy(images), torch.from_numpy(captions)).cpu().numpy()
    found = np.empty(len(images), np.float32)
    for start in range(0, len(images), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        found[part] = _products(split.images, split.captions, images[part], captions[part])
    return found


def _products(one: Tensor, other: Tensor, rows: Places, columns: Places) -> np.ndarray:
    sides = (
        vectors[torch.from_numpy(places).to(vectors.device)].double()
        for vectors, places in ((one, rows), (other, columns))
    )
    return torch.linalg.vecdot(*sides).float().cpu().numpy()
