"""What a column of ranks or hits says: R@K, median and mean rank, rsum."""

import numpy as np
from jaxtyping import Bool, Float, Int


def hits_at(ranks: Float[np.ndarray, " queries"], k: int) -> Bool[np.ndarray, " queries"]:
    """Whether the best correct item is among the best k. ranks: 0-based."""
    return ranks < k


def recall(hits: Bool[np.ndarray, " queries"]) -> float:
    """R@K in percent: the share of queries with at least one correct item, not the share of correct items found."""
    return 100.0 * float(hits.mean())


def chance(correct: Int[np.ndarray, " queries"], items: int, k: int) -> float:
    """R@K in percent that random ranks have on average. correct: how many of ``items`` are correct for each query."""
    taken = np.arange(min(k, items))
    missed = np.clip(items - correct[:, None] - taken, 0, None) / (items - taken)
    return 100.0 * float((1 - missed.prod(axis=1)).mean())


def median_rank(ranks: Float[np.ndarray, " queries"]) -> float:
    """Med r as the VSE++ line of code counts it: floor(median of 0-based ranks) + 1."""
    return float(np.floor(np.median(ranks)) + 1)


def mean_rank(ranks: Float[np.ndarray, " queries"]) -> float:
    """Mean r, 1 = always first."""
    return float(ranks.mean() + 1)
