"""What the evaluation kinds share: how an array is compared, and the reference's five figures of one direction."""

import numpy as np
import torch

from pipeline.evaluate import outcome
from pipeline.evaluate.metrics.truth import Truth
from pipeline.evaluate.outcome import Outcome
from pipeline.evaluate.scores import Scores

Line = tuple[str, float, float]
EXACT, FLOAT64, FLOAT32 = 0.0, 1e-9, 1e-5


def line(name: str, found: np.ndarray, wanted: np.ndarray, tolerance: float) -> Line:
    """Largest absolute difference, infinite when the shapes differ; the tolerance grows with values beyond 1."""
    found, wanted = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    if found.shape != wanted.shape:
        return name, np.inf, tolerance
    error = float(np.abs(found - wanted).max(initial=0.0))
    return name, error, tolerance * max(1.0, float(np.abs(wanted).max(initial=0.0)))


def both_ways(images: np.ndarray, captions: np.ndarray) -> tuple[Outcome, Outcome]:
    """Image to text and text to image by inner product; captions i c .. i c + c - 1 belong to image i.

    The reference multiplies in float64, so the vectors are widened first.
    """
    per_image = len(captions) // len(images)
    owners = np.repeat(np.arange(len(images)), per_image)
    sides = (torch.from_numpy(part.astype(np.float64)) for part in (images, captions))
    scores = Scores.of(*sides, lambda left, right: left @ right.T)
    to_text = outcome.rank(scores, Truth.by_image(np.arange(len(images)), owners), "pessimistic")
    to_image = outcome.rank(scores.transposed(), Truth.by_image(owners, np.arange(len(images))), "pessimistic")
    return to_text, to_image


def five(found: Outcome) -> np.ndarray:
    """R@1, R@5, R@10, Med r, Mean r."""
    values = found.metrics()
    return np.array([values[name] for name in ("r@1", "r@5", "r@10", "med_r", "mean_r")])
