"""Measures of one query from the positions of all its correct items: shares from 0 to 1, 1 the best.

Everywhere positions: float64 (pairs,), 0-based and ascending within a query, as ``metrics.positions`` gives
them; starts: int64 (queries + 1,), those of query q are ``positions[starts[q]:starts[q + 1]]``, R of them,
one at least. The rank in a formula is position + 1, and an item is among the first k when its position is
below k: the rule of R@K, also where average ties leave half a position.
"""

import numpy as np
from jaxtyping import Float, Int

Pairs = Float[np.ndarray, " pairs"]
Starts = Int[np.ndarray, " queries_and_one"]
Queries = Float[np.ndarray, " queries"]


def reciprocal_rank(best: Queries) -> Queries:
    """1 / rank of the best correct item; its mean over queries is MRR. best: 0-based positions."""
    return 1.0 / (best + 1)


def average_precision(positions: Pairs, starts: Starts) -> Queries:
    """The mean precision at the ranks of a query's correct items, over the whole ranking: trec_eval's map."""
    return sums(_precision(positions, starts), starts) / np.diff(starts)


def average_precision_at_r(positions: Pairs, starts: Starts) -> Queries:
    """(1 / R) times the sum of the precision at every rank up to R that holds a correct item: MAP@R of
    Musgrave et al. (A Metric Learning Reality Check, ECCV 2020), mAP@R of ECCV Caption (Chun et al.,
    ECCV 2022)."""
    inside = positions < np.repeat(np.diff(starts), np.diff(starts))
    return sums(np.where(inside, _precision(positions, starts), 0.0), starts) / np.diff(starts)


def r_precision(positions: Pairs, starts: Starts) -> Queries:
    """The share of the first R items that is correct: trec_eval's Rprec, R-Precision of ECCV Caption."""
    inside = positions < np.repeat(np.diff(starts), np.diff(starts))
    return sums(inside.astype(np.float64), starts) / np.diff(starts)


def ndcg(positions: Pairs, starts: Starts, k: int) -> Queries:
    """Discounted cumulative gain of the first k over that of a perfect ranking: gain 1 for a correct item,
    discount log2(rank + 1), min(R, k) correct items in the ideal (Järvelin and Kekäläinen, TOIS 2002):
    trec_eval's ndcg_cut."""
    # The same additions in the same order on both sides, so that rounding cannot lift the quotient above 1.
    return sums(_gains(positions, k), starts) / sums(_gains(_index(starts), k), starts)


def _index(starts: Starts) -> np.ndarray:
    """0, 1, ... R - 1 for each query: the positions of a perfect ranking."""
    return np.arange(starts[-1]) - np.repeat(starts[:-1], np.diff(starts))


def _precision(positions: Pairs, starts: Starts) -> Pairs:
    """The share of correct items among all up to and with each correct one."""
    return (_index(starts) + 1) / (positions + 1)


def _gains(positions: np.ndarray, k: int) -> Pairs:
    return np.where(positions < k, 1.0 / np.log2(positions + 2), 0.0)


def sums(values: Pairs, starts: Starts) -> Queries:
    """Of each query's own."""
    return np.add.reduceat(values, starts[:-1])
