"""How well losses and probabilities tell mismatched pairs from matched ones, and the losses as a histogram."""

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from numpy import ndarray
from sklearn.metrics import average_precision_score

from vse_pipe.train.mixture import BetaMixture

BINS = 50


def average_precision(values: Float[ndarray, " pairs"], mismatched: Bool[ndarray, " pairs"]) -> float | None:
    """Sum over the values, from the highest, of the precision at each times the gain in recall; equal values enter
    together. None where nothing is mismatched."""
    if not mismatched.any():
        return None
    return float(average_precision_score(mismatched, values))


def ranked(
    losses: Float[ndarray, " pairs"],
    probability: Float[ndarray, " pairs"],
    mismatched: Bool[ndarray, " pairs"] | None,
) -> list[dict]:
    """How many of the first 10, 100, 1,000, ... pairs by loss, the highest first, are mismatched: ``first``, ``estimated``
    (the mean of their probabilities) and ``precision`` (None where nobody knows the truth). Of equal losses the earlier
    pair comes first."""
    order = np.argsort(-losses, kind="stable")
    sizes = [10**power for power in range(1, 10) if 10**power < len(losses)] or [len(losses)]
    return [
        {
            "first": size,
            "estimated": float(probability[order[:size]].mean()),
            "precision": None if mismatched is None else float(mismatched[order[:size]].mean()),
        }
        for size in sizes
    ]


def at_threshold(
    probability: Float[ndarray, " pairs"], mismatched: Bool[ndarray, " pairs"], threshold: float
) -> tuple[float | None, float | None]:
    """Precision and recall of calling a pair mismatched when its probability is above ``threshold``; None where the
    denominator is 0."""
    flagged = probability > threshold
    hits = int((flagged & mismatched).sum())
    return (
        hits / int(flagged.sum()) if flagged.any() else None,
        hits / int(mismatched.sum()) if mismatched.any() else None,
    )


def histogram(
    losses: Float[ndarray, " pairs"], mixture: BetaMixture, mismatched: Bool[ndarray, " pairs"] | None
) -> pd.DataFrame:
    """BINS equal bins from the smallest loss to the largest: low, high, pairs; matched and mismatched, empty where the
    truth is unknown; expected_matched and expected_mismatched, the pairs that each component of the mixture puts there
    (its density in the middle of the bin), empty where there was nothing to split.

    The mixture lives on losses scaled to 0..1. Equal losses make one bin.
    """
    low, high = float(losses.min()), float(losses.max())
    bins = BINS if high > low else 1
    edges = np.linspace(low, high, bins + 1)
    edges[-1] = high
    # The bin is found once, so that the counts of both kinds add up.
    at = np.clip(np.searchsorted(edges, losses, "right") - 1, 0, bins - 1)
    table = pd.DataFrame({"low": edges[:-1], "high": edges[1:], "pairs": np.bincount(at, minlength=bins)})
    for name, kind in (("matched", False), ("mismatched", True)):
        chosen = None if mismatched is None else np.bincount(at[mismatched == kind], minlength=bins)
        table[name] = pd.array([None] * bins if chosen is None else chosen, dtype="Int64")
    expected = np.full((2, bins), np.nan)
    if bins > 1 and np.isfinite(mixture.alpha).all():
        middle = (np.arange(bins) + 0.5) / bins
        expected = mixture.density(middle) * len(losses) / bins
    table["expected_matched"], table["expected_mismatched"] = expected
    return table
