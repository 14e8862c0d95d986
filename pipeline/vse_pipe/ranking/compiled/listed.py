"""Scores of listed pairs and ranks among listed items, the compiled loops under ``vse_pipe.ranking.engine.nearest``."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, fastmath=True)
def _product(one, other):
    total = np.float32(0.0)
    for place in range(len(one)):
        total += one[place] * other[place]
    return total


@njit(cache=True, nogil=True)
def scored(queries, items, starts, columns, out, start, stop):
    """Fill ``out`` with the products of each query from start to stop and its listed items, -inf where a column is -1. starts: those of
    query q are ``columns[starts[q]:starts[q + 1]]``. A pair has the same score in whatever list it stands."""
    for row in range(start, stop):
        for place in range(starts[row], starts[row + 1]):
            out[place] = -np.inf if columns[place] < 0 else _product(queries[row], items[columns[place]])


@njit(cache=True, nogil=True)
def ranks(scores, columns, starts, correct, right, strict, ties, start, stop):
    """Fill ``strict`` and ``ties`` for the queries from start to stop: how many listed items score above the best correct one, and how
    many wrong ones as it does. scores, columns: (queries, listed); right: the scores of ``correct``, the correct items of query
    q from starts[q] to starts[q + 1]."""
    for row in range(start, stop):
        best = right[starts[row] : starts[row + 1]].max()
        for place in range(scores.shape[1]):
            strict[row] += scores[row, place] > best
            if scores[row, place] == best:
                wrong = True
                for one in range(starts[row], starts[row + 1]):
                    wrong &= correct[one] != columns[row, place]
                ties[row] += wrong
