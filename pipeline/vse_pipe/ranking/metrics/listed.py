"""Positions in lists of answers, of which each query has its own and not every item is in one."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int64

from vse_pipe.ranking.metrics.precision import Pairs, Starts
from vse_pipe.ranking.metrics.ranks import Ties

_SHARE = {"pessimistic": 1.0, "average": 0.5, "optimistic": 0.0}
Answers = Int64[np.ndarray, " answers"]


@dataclass(frozen=True)
class Listed:
    """positions, starts: as in ``metrics.precision``, infinite for correct items that no answer names; gains, grades: as
    ``metrics.graded.ndcg`` takes them; queries: which they are, ascending."""

    positions: Pairs
    gains: Pairs
    grades: Pairs
    starts: Starts
    queries: Int64[np.ndarray, " queries"]


def listed(
    queries: Answers,
    scores: Float[np.ndarray, " answers"],
    grades: Float[np.ndarray, " answers"],
    absent: Int64[np.ndarray, " absent"],
    absent_grades: Float[np.ndarray, " absent"],
    above: float,
    ties: Ties,
) -> Listed:
    """queries: of each answer, as numbers; grades: of each answer, 0 where nobody judged it; absent: the queries of graded items
    that are not among the answers. An item is correct whose grade is above ``above``.

    Ties are those of ``metrics.positions`` and ``metrics.graded.gains``: of answers with the same score the wrong ones come
    first (pessimistic), then the correct ones by ascending grade.
    """
    correct = grades > above
    order = np.lexsort((-grades if ties == "optimistic" else grades, ~correct, -scores, queries))
    correct, owners, grades = correct[order], queries[order], grades[order]
    before, within, wrong, group = _places(owners, scores[order], correct)
    positions = (before + within + _SHARE[ties] * wrong)[correct]
    gains = grades
    if ties == "average":
        gains = (np.bincount(group, grades * correct) / np.maximum(1, np.bincount(group, correct)))[group]
    lost = absent_grades > above
    owners = np.concatenate([owners[correct], absent[lost]])
    positions = np.concatenate([positions, np.full(lost.sum(), np.inf)])
    order = np.lexsort((positions, owners))
    found, counts = np.unique(owners, return_counts=True)
    gains, grades = (np.concatenate([values[correct], absent_grades[lost]])[order] for values in (gains, grades))
    return Listed(positions[order], gains, grades, np.concatenate([[0], counts.cumsum()]), found)


def _places(
    queries: Answers, scores: Float[np.ndarray, " answers"], correct: Bool[np.ndarray, " answers"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of answers by query, score and whether they are correct: those of the query that score higher, the place among those of
    the same score, how many of these are wrong, and the number of this group."""
    places = np.arange(len(queries))
    new_query = np.ones(len(queries), bool)
    new_query[1:] = queries[1:] != queries[:-1]
    new_group = new_query.copy()
    new_group[1:] |= scores[1:] != scores[:-1]
    group = new_group.cumsum() - 1
    first = np.flatnonzero(new_group)[group]
    start = np.flatnonzero(new_query)[new_query.cumsum() - 1]
    return first - start, places - first, np.bincount(group, ~correct)[group], group
