"""Compiled loops of rankings: tiles, best entries, counts, deferred acceptance, and order violations.

Import this module inside functions: numba takes half a second to import, which other commands should not pay."""

import numpy as np
from numba import njit

# Entries compared together; most chunks have none of the best.
_CHUNK = 64


@njit(cache=True, nogil=True)
def _enter(score, item, best, items):
    """Insert into descending lists of the best, behind equal scores; the last entry falls out."""
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
    """Count rows from start to stop of a tile; returns whether all their scores are finite.

    tile: float32 (rows, columns), starting at query ``query`` and item ``item``; tiles come with ascending columns
    within ascending rows, so that the first of equal scores stays first. bounds: float32 (bounds, queries); over,
    reached: int32 of that shape, increased by the scores above each bound, and not below it; best, items: float32 and
    int32 (queries, k), the best so far; items may be (queries, 0)."""
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


# A sample of the row gives a threshold that slightly more than the best k entries pass; only those are sorted. The
# margin is large enough that fewer than k hardly ever pass.
_SAMPLE = 1024
_MARGIN = 1.2


@njit(cache=True, nogil=True)
def _candidates(row, k, sample, chosen):
    """Fill ``chosen`` with at least k columns, the best k among them. Returns their number."""
    stride = max(1, len(row) // _SAMPLE)
    size = 0
    for place in range(0, len(row), stride):
        sample[size] = row[place]
        size += 1
    rank = int(_MARGIN * k / stride) + 4
    while rank < size:
        count = _collect(row, np.partition(sample[:size], size - rank)[size - rank], chosen)
        if count >= k:
            return count
        rank *= 2
    return _collect(row, -np.inf, chosen)


@njit(cache=True, nogil=True)
def _collect(row, threshold, chosen):
    """Fill ``chosen`` with columns of the entries that reach the threshold. Returns their number."""
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
    """Order runs of equal values by ascending priority."""
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
    """Fill ``best`` and ``columns``, (rows, k), for the rows from start to stop, best first, ties by ascending
    ``priority`` (items,); k is at most the number of items. Stops and returns False at an entry that is not finite."""
    chosen = np.empty(scores.shape[1] + 1, np.int32)
    sample = np.empty(2 * _SAMPLE + 2, scores.dtype)
    for number in range(start, stop):
        row = scores[number]
        if not finite(row):
            return False
        count = _candidates(row, k, sample, chosen)
        passing = chosen[:count].copy()
        values = row[passing]
        order = np.argsort(-values, kind="mergesort")
        values, passing = values[order], passing[order]
        _settle_ties(values, passing, priority)
        best[number], columns[number] = values[:k], passing[:k]
    return True


# Counters are int32 and rows are walked by index from 0: otherwise the compiler finds no wide instructions, and the
# loops take three times as long or more.


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
    """Whether all are finite: x - x is 0 for every number and NaN for NaN and the infinities."""
    count = np.int32(0)
    for column in range(len(row)):
        count = np.int32(count + np.int32(row[column] - row[column] == 0))
    return count == len(row)


@njit(cache=True, nogil=True)
def count(scores: np.ndarray, starts: np.ndarray, thresholds: np.ndarray, strictly: bool, counts: np.ndarray) -> bool:
    """Fill ``counts``; returns whether all scores are finite.

    scores: float32 or float64 (rows, items), contiguous; thresholds: same precision, for row r from starts[r] to
    starts[r + 1]; counts: int64 (thresholds,), scores in the row above each threshold (or equal, without ``strictly``).
    """
    numbers = True
    for row in range(len(scores)):
        numbers &= finite(scores[row])
        for place in range(starts[row], starts[row + 1]):
            if strictly:
                counts[place] = above(scores[row], thresholds[place])
            else:
                counts[place] = at_least(scores[row], thresholds[place])
    return numbers


@njit(cache=True, nogil=True)
def answered(rows, columns, lost, starts, items):
    """The number of queries matched with a correct item, without ``lost`` queries. rows, columns: int64 (pairs,), in
    any order; the correct items of query q are ``items[starts[q]:starts[q + 1]]``."""
    is_answered = np.zeros(len(starts) - 1, np.bool_)
    for pair in range(len(rows)):
        row = rows[pair]
        for place in range(starts[row], starts[row + 1]):
            is_answered[row] |= items[place] == columns[pair]
    is_answered[lost] = False
    return is_answered.sum()


# Deferred acceptance for ``vse_pipe.ranking.matching``: queries propose down their lists, best first. An item keeps its
# best ``quota`` proposals in a heap with the worst on top; a query that loses its place continues to propose. Both
# sides order pairs by (score descending, row ascending), so the result does not depend on the order of proposals.


@njit(cache=True, nogil=True)
def _worse(score: float, row: int, other_score: float, other_row: int) -> bool:
    return score < other_score or (score == other_score and row > other_row)


@njit(cache=True, nogil=True)
def _sift_up(scores: np.ndarray, rows: np.ndarray, child: int) -> None:
    while child > 0:
        parent = (child - 1) // 2
        if not _worse(scores[child], rows[child], scores[parent], rows[parent]):
            return
        scores[child], scores[parent] = scores[parent], scores[child]
        rows[child], rows[parent] = rows[parent], rows[child]
        child = parent


@njit(cache=True, nogil=True)
def _sift_down(scores: np.ndarray, rows: np.ndarray, size: int) -> None:
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= size:
            return
        right = child + 1
        if right < size and _worse(scores[right], rows[right], scores[child], rows[child]):
            child = right
        if not _worse(scores[child], rows[child], scores[parent], rows[parent]):
            return
        scores[child], scores[parent] = scores[parent], scores[child]
        rows[child], rows[parent] = rows[parent], rows[child]
        parent = child


@njit(cache=True, nogil=True)
def propose(list_scores, list_items, position, end, filled, k, heap_scores, heap_rows, sizes) -> None:
    """Let every query propose until it has ``k`` places or its list ends. Changes in place:

    position, filled: int64 (queries,), next list entry and number of places; heap_scores float64 and heap_rows int32,
    (items, quota): the heaps; sizes: int32 (items,), their sizes. list_scores float64 and list_items int32: all lists
    joined, for query q from position[q] to end[q]."""
    quota = heap_scores.shape[1]
    queries = len(position)
    stack, size = np.arange(queries)[::-1].copy(), queries
    stacked = np.ones(queries, dtype=np.bool_)
    while size > 0:
        size -= 1
        row = stack[size]
        stacked[row] = False
        while filled[row] < k and position[row] < end[row]:
            score, item = list_scores[position[row]], list_items[position[row]]
            position[row] += 1
            scores, rows = heap_scores[item], heap_rows[item]
            if sizes[item] < quota:
                scores[sizes[item]], rows[sizes[item]] = score, row
                sizes[item] += 1
                filled[row] += 1
                _sift_up(scores, rows, sizes[item] - 1)
            elif _worse(scores[0], rows[0], score, row):
                loser = rows[0]
                scores[0], rows[0] = score, row
                filled[row] += 1
                filled[loser] -= 1
                _sift_down(scores, rows, quota)
                if not stacked[loser]:
                    stack[size], stacked[loser] = loser, True
                    size += 1


# Order violations without an array of (images, texts, dim). Rows are independent; the compiler fixes the order in which
# they sum over ``dim``. NaN stays NaN.


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def sum_squares(images, texts, out):
    """Write the sums over ``dim`` of ``max(0, text - image)^2`` to ``out`` (images, texts)."""
    zero = images.dtype.type(0)
    for i in range(len(images)):
        image = images[i]
        for t in range(len(texts)):
            text, total = texts[t], zero
            for j in range(image.size):
                above = text[j] - image[j]
                above = zero if above < zero else above
                total += above * above
            out[i, t] = total


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def add_weighted(vectors, opposites, weights, texts, out):
    """Add the sums over ``opposites`` of ``weights * max(0, text - image)`` to ``out`` (vectors, dim).

    Under the hardest negative most weights are 0, and these cost nothing."""
    zero = vectors.dtype.type(0)
    for row in range(len(vectors)):
        vector, total = vectors[row], out[row]
        for column in range(len(opposites)):
            weight, opposite = weights[row, column], opposites[column]
            if weight == zero:
                continue
            for j in range(vector.size):
                above = vector[j] - opposite[j] if texts else opposite[j] - vector[j]
                above = zero if above < zero else above
                total[j] += weight * above
