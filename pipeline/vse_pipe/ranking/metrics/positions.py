"""Where every correct item of a query stands among all items: by counting, without a sort of the scores."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from vse_pipe.core.errors import InputError
from vse_pipe.ranking.metrics.ranks import Ties
from vse_pipe.ranking.metrics.thresholds import counts
from vse_pipe.ranking.metrics.truth import Truth


def positions(
    scores: Float[Tensor, "rows items"], rows: slice, truth: Truth, ties: Ties
) -> Float[np.ndarray, " pairs"]:
    """0-based positions of the correct items in each query's ranking, ascending within a query, query after
    query; how many each query has, ``truth.starts`` says. The first of a query is what ``best_ranks`` gives.

    Of the wrong items with exactly its score all (pessimistic), half (average) or none (optimistic) stand
    before a correct item; correct items with the same score follow one another. So with ``average`` a
    position can end in .5; two of one query still differ by 1 at least. Raises InputError on NaN or infinite
    scores, which would rank first, and on a query without a correct item.
    """
    starts = truth.starts[rows.start : rows.stop + 1] - truth.starts[rows.start]
    if len(bare := np.flatnonzero(np.diff(starts) == 0)):
        raise InputError(f"query {rows.start + bare[0]} has no correct item; every query needs one at least")
    local, columns = truth.of(rows, scores.device)
    correct = scores[local, columns].cpu().numpy()
    queries = local.cpu().numpy()
    correct = correct[descending(queries, correct)]
    return counted(queries, correct, ties, lambda strictly: _counts(scores, rows, starts, correct, strictly))


def descending(queries: Int[np.ndarray, " pairs"], scores: Float[np.ndarray, " pairs"]) -> Int[np.ndarray, " pairs"]:
    """The order that ``counted`` wants: query after query, of each the highest score first."""
    return np.lexsort((-scores, queries))


def counted(
    queries: Int[np.ndarray, " pairs"],
    correct: Float[np.ndarray, " pairs"],
    ties: Ties,
    count: Callable[[bool], Int[np.ndarray, " pairs"]],
) -> Float[np.ndarray, " pairs"]:
    """``positions`` of correct items with these scores. count: how many scores of its query are above each of them (True), or not
    below."""
    within, alike = _groups(queries, correct)
    found = []
    if ties != "pessimistic":
        found.append(count(True) + within)
    if ties != "optimistic":
        found.append(count(False) - alike + within)
    return np.mean(found, axis=0)


def _counts(scores: Tensor, rows: slice, starts: np.ndarray, thresholds: np.ndarray, strictly: bool) -> np.ndarray:
    found, finite = counts(scores, starts, thresholds, strictly)
    if not finite:
        raise InputError(f"scores of queries {rows.start} to {rows.stop - 1} hold NaN or infinite values")
    return found


def _groups(queries: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each correct item its place among the correct items of its query with its score, and their number.

    Both arrays come sorted by query, then by score.
    """
    new = np.ones(len(scores), dtype=bool)
    new[1:] = (queries[1:] != queries[:-1]) | (scores[1:] != scores[:-1])
    first = np.flatnonzero(new)
    sizes = np.diff(np.append(first, len(scores)))
    return np.arange(len(scores)) - np.repeat(first, sizes), np.repeat(sizes, sizes)
