"""Hubness: how unevenly the items are retrieved. All shares are from 0 to 1."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Int, Integer


def occurrence(chosen: Integer[np.ndarray, " picks"], items: int) -> Int[np.ndarray, " {items}"]:
    """N_k: how often each of ``items`` items was chosen; chosen: columns of the best k."""
    return np.bincount(chosen, minlength=items)


def _levels(counts: Int[np.ndarray, " items"]) -> tuple[np.ndarray, np.ndarray]:
    """The different values of N_k, ascending, and the number of items with each of them."""
    items = np.bincount(counts)
    values = np.flatnonzero(items)
    return values, items[values]


def skewness(counts: Int[np.ndarray, " items"]) -> float:
    """Skewness of N_k, Eq. 7 of HAL (EMNLP-IJCNLP submission): the third standardised moment,
    population variance.

    Items that no query retrieves count. NaN (0/0) when all items are retrieved equally often."""
    values, items = _levels(counts)
    away = values - values @ items / len(counts)
    variance = away**2 @ items / len(counts)
    return float(away**3 @ items / len(counts) / variance**1.5) if len(values) > 1 else float("nan")


def robin_hood(counts: Int[np.ndarray, " items"]) -> float:
    """Robin Hood (Hoover) index of N_k, 0 to 1: half of sum |N_k - mean| over sum N_k, as in
    scikit-hubness.

    It is the share of places among the best k that would have to move for every item to have the
    same number. Items that no query retrieves count; 0 when nothing was retrieved."""
    values, items = _levels(counts)
    total = values @ items
    return float(np.abs(values - total / len(counts)) @ items / (2 * total)) if total else 0.0


def gini(counts: Int[np.ndarray, " items"]) -> float:
    """Gini index of N_k, 0 to 1: half the mean difference of two items' N_k over the mean N_k.

    It is sum (2 r - n - 1) N_k(r) over n sum N_k with ranks r by ascending N_k; scikit-hubness gets
    the same number from all pairs. Items that no query retrieves count; 0 when nothing was
    retrieved."""
    values, items = _levels(counts)
    total = values @ items
    twice_mean_rank = 2 * items.cumsum() - items + 1
    return float((twice_mean_rank - len(counts) - 1) * items @ values / (len(counts) * total)) if total else 0.0


def anti_hubs(counts: Int[np.ndarray, " items"]) -> float:
    """Share of the items, 0 to 1, that are among the best k of no query."""
    return float((counts == 0).mean())


def hub_share(counts: Int[np.ndarray, " items"]) -> float:
    """Share of places among the best k, 0 to 1, that hubs have; 0 when nothing was retrieved.

    A hub is an item with at least twice the mean N_k. scikit-hubness has 2k, which is the same for
    as many queries as items but makes nearly every image with five captions a hub."""
    total = counts.sum()
    return float(counts[counts >= 2 * counts.mean()].sum() / total) if total else 0.0


def largest_hub(counts: Int[np.ndarray, " items"]) -> int:
    """max N_k: the number of queries that have the most retrieved item among their best k."""
    return int(counts.max())


# By the name of a figure. Anti-hubs are in percent.
FIGURES: dict[str, Callable[[np.ndarray], float]] = {
    "skew": skewness,
    "robin_hood": robin_hood,
    "gini": gini,
    "anti_hubs": lambda counts: 100.0 * anti_hubs(counts),
    "largest_hub": largest_hub,
}
