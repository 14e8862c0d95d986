"""Positions of correct items, in rankings and in answer lists, and the measures of one query that
follow from them. Measures are shares from 0 to 1, 1 the best. positions: float64 (pairs,), 0-based
and ascending within a query; starts: int64 (queries + 1,), the R >= 1 positions of query q are
``positions[starts[q]:starts[q + 1]]``. The rank in a formula is position + 1."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Int64

from vse_pipe.ranking.recall import Ties, Truth, places

Pairs = Float[np.ndarray, " pairs"]
Starts = Int[np.ndarray, " queries_and_one"]
Queries = Float[np.ndarray, " queries"]


def measures(positions: Pairs, starts: Starts, depths: Sequence[int]) -> dict[str, Queries]:
    """By name the measures of each query, all over the whole ranking but for ``ndcg_<k>``.

    ap: the mean precision at the ranks of correct items, trec_eval's map. ap_at_r: (1 / R) times
    the sum of the precision at every rank up to R with a correct item: MAP@R of Musgrave et al. (A
    Metric Learning Reality Check, ECCV 2020), mAP@R of ECCV Caption (Chun et al., ECCV 2022).
    r_precision: the share of correct items among the first R, trec_eval's Rprec. ndcg_<k>: ``ndcg``
    with gain 1, trec_eval's ndcg_cut."""
    counts = np.diff(starts)
    precision = (_index(starts) + 1) / (positions + 1)
    inside = positions < np.repeat(counts, counts)
    parts = {
        "ap": precision,
        "ap_at_r": np.where(inside, precision, 0.0),
        "r_precision": inside.astype(np.float64),
    }
    shares = {name: sums(values, starts) / counts for name, values in parts.items()}
    gains = np.ones(len(positions))
    return shares | {f"ndcg_{k}": ndcg(positions, gains, starts, k) for k in depths}


def ndcg(positions: Pairs, grades: Pairs, starts: Starts, k: int) -> Queries:
    """Discounted cumulative gain of the first k over that of a perfect ranking: the gain is the
    grade, the discount log2(rank + 1) (Järvelin and Kekäläinen, TOIS 2002); Burges's gain is
    2^grade - 1."""
    queries = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    best = grades[np.lexsort((-grades, queries))]
    # Both sides add in the same order, so that rounding cannot lift the quotient above 1.
    ideal = sums(_discounted(_index(starts), best, k), starts)
    return sums(_discounted(positions, grades, k), starts) / ideal


def _index(starts: Starts) -> np.ndarray:
    """0, 1, ... R - 1 for each query: the positions of a perfect ranking."""
    return np.arange(starts[-1]) - np.repeat(starts[:-1], np.diff(starts))


def sums(values: Pairs, starts: Starts) -> Queries:
    """The sum over each query's values."""
    return np.add.reduceat(values, starts[:-1])


Rows = Int64[np.ndarray, " rows"]


@dataclass(frozen=True)
class Graded:
    """images, captions: ids; grades: float64, at least 0, 0 for nothing in common. Each judgement
    of a pair has a row; both directions have the same pairs. above: a pair with a larger mean grade
    is correct."""

    images: Rows
    captions: Rows
    grades: Float[np.ndarray, " rows"]
    above: float = 0.0

    def cells(self, direction: str, queries: np.ndarray, items: np.ndarray) -> "Cells":
        """queries, items: unique int64 ids in the order of rows and columns, others left out."""
        sides = (self.images, self.captions) if direction == "image_to_text" else (self.captions, self.images)
        rows, columns = places(queries, sides[0]), places(items, sides[1])
        inside = (rows >= 0) & (columns >= 0)
        return Cells(rows[inside], columns[inside], self.grades[inside], len(queries), len(items))


@dataclass(frozen=True)
class Cells:
    """Graded cells of ``queries`` rows and ``items`` columns; one may occur several times."""

    rows: Rows
    columns: Rows
    grades: Float[np.ndarray, " rows"]
    queries: int
    items: int

    def truth(self, above: float) -> tuple[Truth, Pairs, Rows]:
        """The cells with a mean grade above ``above``, these means, and a row of each cell, in the
        order of the truth's items."""
        keys, first, inverse, counts = np.unique(
            self.rows * self.items + self.columns, return_index=True, return_inverse=True, return_counts=True
        )
        means = np.bincount(inverse, self.grades, len(keys)) / counts
        chosen = means > above
        truth = Truth.of_cells(keys[chosen], self.queries, self.items)
        return truth, means[chosen], first[chosen]


def ordered(queries: np.ndarray, scores: np.ndarray, grades: Pairs, ties: Ties) -> Rows:
    """The order of correct items by query, then by descending score: that of ``positions``. Among
    items with the same score the worst come first (pessimistic) or the best (optimistic)."""
    return np.lexsort((-grades if ties == "optimistic" else grades, -scores, queries))


def _discounted(positions: np.ndarray, gains: Pairs, k: int) -> Pairs:
    return np.where(positions < k, gains / np.log2(positions + 2), 0.0)


def kendall(scores: Float[np.ndarray, " rows"], grades: Float[np.ndarray, " rows"]) -> dict[str, float]:
    """Kendall's tau_b and tau_c, -1 to 1, with one row per judgement; empty where all scores or all
    grades are equal.

    The literature on captions reports tau_c of Flickr8k's expert and tau_b of its crowd
    annotations, times 100 (Hessel et al., CLIPScore, EMNLP 2021)."""
    if len(np.unique(scores)) < 2 or len(np.unique(grades)) < 2:
        return {}
    from scipy.stats import kendalltau

    return {f"tau_{variant}": float(kendalltau(scores, grades, variant=variant).statistic) for variant in "bc"}


@dataclass(frozen=True)
class Listed:
    """positions, starts: as in ``graded``, infinite for correct items without an answer; grades: of
    the items at ``positions``, above 0; queries: their numbers, ascending."""

    positions: Pairs
    grades: Pairs
    starts: Starts
    queries: Int64[np.ndarray, " queries"]

    @classmethod
    def of_items(cls, owners: Int64[np.ndarray, " pairs"], positions: Pairs, grades: Pairs) -> "Listed":
        """owners: the query of each item, ascending."""
        queries, counts = np.unique(owners, return_counts=True)
        return cls(positions, grades, np.concatenate([[0], counts.cumsum()]), queries)


def listed(queries: Rows, scores: Float[np.ndarray, " rows"], grades: Pairs, above: float, ties: Ties) -> Listed:
    """The correct items of answer lists, those with a grade above ``above``.

    queries: number of each answer's query; scores: NaN for a graded item without an answer; grades:
    0 where not judged. Ties are those of ``positions`` and ``ordered``: among answers with the same
    score the wrong ones come first (pessimistic), then the correct ones by ascending grade."""
    # Wrong answers have a grade of at most ``above``, so that grades order them as well.
    order = ordered(queries, scores, grades, ties)
    places = np.arange(len(order)) - np.searchsorted(queries[order], queries[order])
    positions = np.where(np.isnan(scores[order]), np.inf, places)
    correct = grades[order] > above
    order = order[correct]
    return Listed.of_items(queries[order], positions[correct], grades[order])
