"""What a tile of scores adds to the rankings of its rows and of its columns: the compiled loops under
``vse_pipe.ranking.engine.tiles``.

Tiles come with ascending columns within ascending rows, so that of equal scores the first to come is the first in order.
"""

import numpy as np
from numba import njit

from vse_pipe.ranking.compiled.thresholds import above, at_least, finite

# Entries that are looked at together; most hold none of the best. Counters are int32: see ``thresholds``.
_CHUNK = 64


@njit(cache=True, nogil=True)
def _enter(score, item, best, items):
    """Into descending lists of the best, behind its equals; the last falls out."""
    place = len(best) - 1
    while place > 0 and best[place - 1] < score:
        best[place] = best[place - 1]
        if len(items):
            items[place] = items[place - 1]
        place -= 1
    best[place] = score
    if len(items):
        items[place] = item


@njit(cache=True, nogil=True)
def of_rows(tile, query, item, bounds, over, reached, best, items, start, stop):
    """For rows from start to stop; returns whether all their scores are finite.

    tile: float32 (rows, columns), the first of which are ``query`` and ``item``; bounds: float32 (bounds, queries); over, reached:
    int32 of that shape, grow by the scores above and not below each bound; best, items: float32 and int32 (queries, k), the best
    so far; items may be (queries, 0).
    """
    numbers = True
    last = best.shape[1] - 1
    for number in range(start, stop):
        row, place = tile[number], query + number
        numbers &= finite(row)
        for turn in range(len(bounds)):
            over[turn, place] += above(row, bounds[turn, place])
            reached[turn, place] += at_least(row, bounds[turn, place])
        for begin in range(0, len(row), _CHUNK):
            end = min(begin + _CHUNK, len(row))
            if above(row[begin:end], best[place, last]):
                for column in range(begin, end):
                    if row[column] > best[place, last]:
                        _enter(row[column], item + column, best[place], items[place])
    return numbers


@njit(cache=True, nogil=True)
def of_columns(tile, query, item, bounds, over, reached, best, items, start, stop):
    """The same for columns from start to stop, which are queries; rows are items."""
    numbers = True
    last = best.shape[1] - 1
    begin, end = query + start, query + stop
    limits = best[begin:end, last].copy()
    for number in range(len(tile)):
        row = tile[number, start:stop]
        numbers &= finite(row)
        for turn in range(len(bounds)):
            _compare(row, bounds[turn, begin:end], over[turn, begin:end], reached[turn, begin:end])
        for first in range(0, len(row), _CHUNK):
            stopped = min(first + _CHUNK, len(row))
            if _any_above(row[first:stopped], limits[first:stopped]):
                for column in range(first, stopped):
                    if row[column] > limits[column]:
                        _enter(row[column], item + number, best[begin + column], items[begin + column])
                        limits[column] = best[begin + column, last]
    return numbers


@njit(cache=True, nogil=True)
def _compare(row, bounds, over, reached):
    for column in range(len(row)):
        over[column] += np.int32(row[column] > bounds[column])
        reached[column] += np.int32(row[column] >= bounds[column])


@njit(cache=True, nogil=True)
def _any_above(row, limits):
    count = np.int32(0)
    for column in range(len(row)):
        count = np.int32(count + np.int32(row[column] > limits[column]))
    return count > 0
