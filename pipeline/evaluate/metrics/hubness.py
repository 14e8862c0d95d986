"""Hubness: how unevenly the items are retrieved."""

import numpy as np
from jaxtyping import Float, Int, Integer


def occurrence(chosen: Integer[np.ndarray, " picks"], items: int) -> Int[np.ndarray, " {items}"]:
    """N_k: for each of ``items`` items how often it was chosen; chosen: the columns of every query's best k."""
    return np.bincount(chosen, minlength=items)


def skewness(counts: Int[np.ndarray, " items"]) -> float:
    """Skewness of N_k, Eq. 7 of Liu et al. (EMNLP 2020): the third standardised moment, population variance.

    Items that nobody retrieves count. 0 when all items are retrieved equally often, where the quotient is 0/0.
    """
    away: Float[np.ndarray, " items"] = counts - counts.mean()
    variance = float((away**2).mean())
    return float((away**3).mean() / variance**1.5) if variance > 0 else 0.0
