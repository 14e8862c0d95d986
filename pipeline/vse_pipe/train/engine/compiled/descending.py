"""Each dimension of a set sorted by itself, with the place that every number came to: compiled, for sets of some tens.

Places are counted, n^2 comparisons of vectors of numbers that lie side by side; a sort of each column by itself takes
several times as long.
"""

import numpy as np
from numba import njit

# Dimensions at a time: numbers and places of a set of 36 stay in the cache next to the processor.
_BLOCK = 64


@njit(cache=True, nogil=True, error_model="numpy")
def _compare(own, other, before, after):
    one = np.int32(1)
    for d in range(_BLOCK):
        first = np.int32(other[d] >= own[d])
        before[d] += first
        after[d] += one - first


@njit(cache=True, nogil=True, error_model="numpy")
def forward(vectors, kept, ordered, places):
    """Write to ``ordered`` (sets, n, dim) the rows of ``kept``, each column from the largest to the smallest, 0 behind them;
    to ``places`` (sets, n, dim) int16 where each number came to, -1 for rows left out. NaN stays in its column."""
    sets, rows, dim = vectors.shape
    numbers = np.zeros((rows, _BLOCK), vectors.dtype)
    counted = np.empty((rows, _BLOCK), np.int32)
    for one in range(sets):
        chosen = np.flatnonzero(kept[one])
        n = len(chosen)
        ordered[one, :n] = np.nan
        ordered[one, n:] = 0
        places[one] = -1
        for start in range(0, dim, _BLOCK):
            width = min(_BLOCK, dim - start)
            counted[:] = 0
            for i in range(n):
                numbers[i, :width] = vectors[one, chosen[i], start : start + width]
                for j in range(i):
                    _compare(numbers[i], numbers[j], counted[i], counted[j])
            for i in range(n):
                for d in range(width):
                    ordered[one, counted[i, d], start + d] = numbers[i, d]
                    places[one, chosen[i], start + d] = counted[i, d]


@njit(cache=True, nogil=True, error_model="numpy")
def backward(gradient, places, found):
    """Write to ``found`` the gradient of the vectors from that of the ordered ones."""
    sets, rows, dim = places.shape
    for one in range(sets):
        for i in range(rows):
            for d in range(dim):
                place = places[one, i, d]
                found[one, i, d] = gradient[one, place, d] if place >= 0 else 0
