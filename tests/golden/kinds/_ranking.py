"""What the metrics kinds share: both directions of one set of images, and how much of it float32 leaves open.

The last bits of a float32 product depend on how it was blocked, so an item within ``_CLOSE`` of the best correct one may
stand on either side of it. Each query's rank may differ by the number of such items, and each figure by what that
does to it; without such items everything must agree.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.ranking import evaluation
from vse_pipe.ranking.evaluation import Outcome
from vse_pipe.ranking.metrics import recall
from vse_pipe.ranking.metrics.recall import Truth
from vse_pipe.ranking.scores import Scores

Line = tuple[str, float, float]
_CLOSE = 1e-6
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Way:
    """One direction: its outcome, its scores, and per query the number of wrong items too close to call."""

    found: Outcome
    scores: Scores
    open: np.ndarray

    def figures(self) -> np.ndarray:
        """R@1, R@5, R@10, Med r, Mean r."""
        return _figures(self.found.ranks)

    def leeway(self) -> np.ndarray:
        """How far each figure may be off."""
        lowest = _figures(self.found.ranks + self.open)
        return np.abs(_figures((self.found.ranks - self.open).clip(0)) - lowest) + _ROUNDING


def both_ways(images: np.ndarray, captions: np.ndarray, similarity: str = "cosine") -> tuple[Way, Way]:
    """Image to text and text to image; captions i c .. i c + c - 1 belong to image i."""
    member = SIMILARITIES.load(similarity)
    image_ids = np.arange(len(images))
    owners = np.repeat(image_ids, len(captions) // len(images))
    measure = partial(member.score, params=member.Params())
    scores = Scores.of(torch.from_numpy(images), torch.from_numpy(captions), measure)
    return _way(scores, Truth.by_image(image_ids, owners)), _way(scores.transposed(), Truth.by_image(owners, image_ids))


def nearest_to_failing(name: str, ours: np.ndarray, stored: np.ndarray, allowed: np.ndarray) -> Line:
    """Error and allowance of the element with the least to spare."""
    if np.shape(ours) != np.shape(stored):
        return name, np.inf, 0.0
    error, allowed = np.abs(np.ravel(ours) - np.ravel(stored)), np.ravel(allowed)
    at = (error - allowed).argmax()
    return name, float(error[at]), float(allowed[at])


def _way(scores: Scores, truth: Truth) -> Way:
    unclear = []
    for rows, block in scores.blocks():
        local, columns = truth.correct_pairs(rows, block.device)
        correct = block[local, columns]
        best = torch.full((len(block),), -torch.inf).scatter_reduce(0, local, correct, "amax")
        close = ((block - best[:, None]).abs() <= _CLOSE).sum(dim=1)
        unclear.append(close - torch.bincount(local[correct >= best[local] - _CLOSE], minlength=len(block)))
    return Way(evaluation.rank(scores, truth, "pessimistic"), scores, torch.cat(unclear).numpy())


def _figures(ranks: np.ndarray) -> np.ndarray:
    recalls = [recall.recall(recall.hits_at(ranks, k)) for k in (1, 5, 10)]
    return np.array([*recalls, recall.median_rank(ranks), recall.mean_rank(ranks)])
