"""Pairs with a grade instead of a yes or no: who goes with whom how well, and the gain of a ranking."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64
from torch import Tensor

from vse_pipe.ranking.metrics.precision import Pairs, Queries, Starts, sums
from vse_pipe.ranking.metrics.ranks import Ties
from vse_pipe.ranking.metrics.truth import Truth, places

Rows = Int64[np.ndarray, " rows"]


@dataclass(frozen=True)
class Graded:
    """images, captions: ids; grades: float64, at least 0, 0 for nothing in common. A pair that several people graded has a row
    for each of them; both directions have the same pairs. above: a pair is correct whose mean grade is larger."""

    images: Rows
    captions: Rows
    grades: Float[np.ndarray, " rows"]
    above: float = 0.0

    def cells(self, direction: str, queries: np.ndarray, items: np.ndarray) -> "Cells":
        """queries, items: unique ids, int64, in the order of the scores' rows and columns. Pairs of others are left out."""
        sides = (self.images, self.captions) if direction == "image_to_text" else (self.captions, self.images)
        rows, columns = places(queries, sides[0]), places(items, sides[1])
        there = (rows >= 0) & (columns >= 0)
        return Cells(rows[there], columns[there], self.grades[there], len(queries), len(items))


@dataclass(frozen=True)
class Cells:
    """Graded cells of a matrix of ``queries`` rows and ``items`` columns; a cell may occur several times."""

    rows: Rows
    columns: Rows
    grades: Float[np.ndarray, " rows"]
    queries: int
    items: int

    def truth(self, above: float) -> tuple[Truth, Pairs]:
        """The cells whose mean grade is above that, and this mean of each, in the order of the truth's items."""
        keys, inverse, counts = np.unique(
            self.rows * self.items + self.columns, return_inverse=True, return_counts=True
        )
        means = np.bincount(inverse, self.grades, len(keys)) / counts
        chosen = keys[means > above]
        numbers = np.bincount(chosen // self.items, minlength=self.queries)
        return Truth(np.concatenate([[0], numbers.cumsum()]), chosen % self.items, self.items), means[means > above]

    def of(self, queries: Int64[np.ndarray, " chosen"]) -> "Cells":
        """Of these rows alone, ascending, which become 0, 1, ..."""
        there = np.isin(self.rows, queries)
        rows = np.searchsorted(queries, self.rows[there])
        return Cells(rows, self.columns[there], self.grades[there], len(queries), self.items)


def gains(
    scores: Float[Tensor, "rows items"], rows: slice, truth: Truth, grades: Float[np.ndarray, " correct"], ties: Ties
) -> Pairs:
    """The grades of the correct items of some queries, in the order in which ``metrics.positions`` gives their positions.

    grades: of ``truth.items``. Of items with the same score the worst come first (pessimistic) or the best (optimistic); with
    ``average`` each has their mean, what it would have on average over all orders.
    """
    local, columns = truth.of(rows, scores.device)
    own = grades[truth.starts[rows.start] : truth.starts[rows.stop]]
    return ordered(local.cpu().numpy(), scores[local, columns].cpu().numpy(), own, ties)


def ordered(queries: np.ndarray, scores: np.ndarray, grades: Pairs, ties: Ties) -> Pairs:
    """The grades by query, then by score, the largest first, then as ``gains`` says."""
    order = np.lexsort((-grades if ties == "optimistic" else grades, -scores, queries))
    found = grades[order]
    if ties != "average" or not len(found):
        return found
    same = (np.diff(queries[order]) == 0) & (np.diff(scores[order]) == 0)
    group = np.concatenate([[0], (~same).cumsum()])
    return (np.bincount(group, found) / np.bincount(group))[group]


def ndcg(positions: Pairs, gains: Pairs, grades: Pairs, starts: Starts, k: int) -> Queries:
    """Discounted cumulative gain of the best k over that of a perfect ranking: the gain is the grade itself, the discount
    log2(rank + 1) (Järvelin and Kekäläinen, TOIS 2002): trec_eval's ndcg_cut; Burges's 2^grade - 1 is another.

    positions, starts: as in ``metrics.precision``; gains: of the items there, above 0; grades: the same without the means that
    ties have made of them, each query's in any order.
    """
    queries = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    best = grades[np.lexsort((-grades, queries))]
    ideal = np.arange(len(grades)) - starts[queries]
    return sums(_discounted(positions, gains, k), starts) / sums(_discounted(ideal, best, k), starts)


def _discounted(positions: np.ndarray, gains: Pairs, k: int) -> Pairs:
    return np.where(positions < k, gains / np.log2(positions + 2), 0.0)
