"""The compiled loops under the inverted softmax: the two largest scores of each item, and the sum of its scores."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _take_in(row, number, first, second, query):
    for item in range(len(row)):
        value, largest = row[item], first[item]
        ahead = value > largest
        runner_up = largest if ahead else value
        second[item] = max(second[item], runner_up)
        first[item] = value if ahead else largest
        query[item] = number if ahead else query[item]


@njit(cache=True, nogil=True)
def leading(strip, first, second, query, start, stop):
    """Fill the largest score ``first``, its row ``query`` (int32) and the second largest of the items from start to stop;
    -inf and row 0 to begin with."""
    for number in range(len(strip)):
        _take_in(strip[number, start:stop], np.int32(number), first[start:stop], second[start:stop], query[start:stop])


@njit(cache=True, nogil=True)
def _add(row, sums):
    for item in range(len(row)):
        sums[item] += row[item]


@njit(cache=True, nogil=True)
def add_up(strip, sums, start, stop):
    """Add all rows of the items from start to stop to ``sums`` (float64), row after row."""
    for number in range(len(strip)):
        _add(strip[number, start:stop], sums[start:stop])
