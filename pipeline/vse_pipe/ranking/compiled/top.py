"""The best entries of each row, the compiled loop under ``vse_pipe.ranking.engine.top``.

A sample of the row gives a threshold that a little more than the best k entries pass; those are sorted, nothing else.
"""

import numpy as np
from numba import njit

from vse_pipe.ranking.compiled.thresholds import at_least, finite

# Entries sampled of a row, and how many times k entries should pass the threshold so that fewer than k hardly ever do.
_SAMPLE = 1024
_MARGIN = 1.2
# Entries that are looked at together; most chunks hold none of the best.
_CHUNK = 64


@njit(cache=True, nogil=True)
def _candidates(row, k, sample, chosen):
    """Fill ``chosen`` with at least k columns, the best k among them. Returns how many."""
    stride = max(1, len(row) // _SAMPLE)
    size = 0
    for place in range(0, len(row), stride):
        sample[size] = row[place]
        size += 1
    wanted = int(_MARGIN * k / stride) + 4
    while wanted < size:
        threshold = np.partition(sample[:size], size - wanted)[size - wanted]
        count = _collect(row, threshold, chosen)
        if count >= k:
            return count
        wanted *= 2
    return _collect(row, -np.inf, chosen)


@njit(cache=True, nogil=True)
def _collect(row, threshold, chosen):
    """Columns of the entries that reach the threshold. Returns how many."""
    count = 0
    for start in range(0, len(row), _CHUNK):
        stop = min(start + _CHUNK, len(row))
        if at_least(row[start:stop], threshold):
            for column in range(start, stop):
                chosen[count] = column
                count += row[column] >= threshold
    return count


@njit(cache=True, nogil=True)
def _settle_ties(values, columns, priority):
    """Within runs of equal values, lowest priority first."""
    start = 0
    while start < len(values):
        stop = start + 1
        while stop < len(values) and values[stop] == values[start]:
            stop += 1
        if stop - start > 1:
            run = columns[start:stop].copy()
            columns[start:stop] = run[np.argsort(priority[run])]
        start = stop


@njit(cache=True, nogil=True)
def select(scores, k, priority, best, columns, start, stop):
    """Fill ``best`` and ``columns``, (rows, k), for the rows from start to stop, best first, equal scores by ascending
    ``priority`` (items,); k is at most the number of items. Returns False when an entry is no number, and stops there."""
    items = scores.shape[1]
    chosen = np.empty(items + 1, np.int32)
    sample = np.empty(2 * _SAMPLE + 2, scores.dtype)
    for number in range(start, stop):
        row = scores[number]
        if not finite(row):
            return False
        count = _candidates(row, k, sample, chosen)
        found = chosen[:count].copy()
        values = row[found]
        order = np.argsort(-values, kind="mergesort")
        values, found = values[order], found[order]
        _settle_ties(values, found, priority)
        best[number], columns[number] = values[:k], found[:k]
    return True
