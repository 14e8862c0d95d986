"""Deferred acceptance, the compiled loop under ``vse_pipe.ranking.engine.matching``.

Queries propose down their lists, best first. An item keeps its best ``quota`` proposals in a heap with the worst on
top; the query that loses its place proposes on. Both sides order pairs by (score descending, row ascending), so the
result does not depend on the order of proposals.
"""

import numpy as np
from numba import njit


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
def propose(list_scores, list_items, position, end, filled, k, held_scores, held_rows, held) -> None:
    """Let every query with fewer than ``k`` places propose until it has them or its list ends. Changes in place:

    position, filled: int64 (queries,), next list entry and places held; held_scores float64 and held_rows int32,
    (items, quota): the heaps; held: int32 (items,), their sizes. list_scores float64 and list_items int32: all lists
    one after the other, that of query q from position[q] to end[q].
    """
    quota = held_scores.shape[1]
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
            scores, rows = held_scores[item], held_rows[item]
            if held[item] < quota:
                scores[held[item]], rows[held[item]] = score, row
                held[item] += 1
                filled[row] += 1
                _sift_up(scores, rows, held[item] - 1)
            elif _worse(scores[0], rows[0], score, row):
                loser = rows[0]
                scores[0], rows[0] = score, row
                filled[row] += 1
                filled[loser] -= 1
                _sift_down(scores, rows, quota)
                if not stacked[loser]:
                    stack[size], stacked[loser] = loser, True
                    size += 1
