"""The compiled loop under ``vse_pipe.ranking.metrics.thresholds``."""

import numpy as np
from numba import njit

# Counters are int32 and rows are walked by index from 0: otherwise the compiler finds no wide
# instructions, and the loops take three times as long or more.


@njit(cache=True, nogil=True)
def above(row: np.ndarray, threshold: float) -> np.int32:
    count = np.int32(0)
    for column in range(len(row)):
        count = np.int32(count + np.int32(row[column] > threshold))
    return count


@njit(cache=True, nogil=True)
def at_least(row: np.ndarray, threshold: float) -> np.int32:
    count = np.int32(0)
    for column in range(len(row)):
        count = np.int32(count + np.int32(row[column] >= threshold))
    return count


@njit(cache=True, nogil=True)
def finite(row: np.ndarray) -> bool:
    """x - x is 0 for every number and NaN for NaN and the infinities."""
    count = np.int32(0)
    for column in range(len(row)):
        count = np.int32(count + np.int32(row[column] - row[column] == 0))
    return count == len(row)


@njit(cache=True, nogil=True)
def count(scores: np.ndarray, starts: np.ndarray, thresholds: np.ndarray, strictly: bool, found: np.ndarray) -> bool:
    """Fill ``found``, and say whether all scores are finite.

    scores: float32 or float64 (rows, items), contiguous; thresholds: the same precision, (thresholds,), those
    of row r from starts[r] to starts[r + 1]; found: int64 (thresholds,), for each the number of scores of its
    row above it, or if not ``strictly`` at least as high.
    """
    numbers = True
    for row in range(len(scores)):
        numbers &= finite(scores[row])
        for place in range(starts[row], starts[row + 1]):
            if strictly:
                found[place] = above(scores[row], thresholds[place])
            else:
                found[place] = at_least(scores[row], thresholds[place])
    return numbers
