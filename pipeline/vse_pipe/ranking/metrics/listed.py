"""Positions in lists of answers, of which each query has its own and not every item is in one."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from vse_pipe.core.errors import InputError
from vse_pipe.ranking.metrics.graded import Pairs, Starts
from vse_pipe.ranking.metrics.recall import Ties, Truth

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
    answered, counts = np.unique(owners, return_counts=True)
    gains, grades = (np.concatenate([values[correct], absent_grades[lost]])[order] for values in (gains, grades))
    return Listed(positions[order], gains, grades, np.concatenate([[0], counts.cumsum()]), answered)


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
    local, columns = truth.correct_pairs(rows, scores.device)
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
    within, sizes = _groups(queries, correct)
    counts = []
    if ties != "pessimistic":
        counts.append(count(True) + within)
    if ties != "optimistic":
        counts.append(count(False) - sizes + within)
    return np.mean(counts, axis=0)


def _counts(scores: Tensor, rows: slice, starts: np.ndarray, thresholds: np.ndarray, strictly: bool) -> np.ndarray:
    above, finite = counts(scores, starts, thresholds, strictly)
    if not finite:
        raise InputError(f"scores of queries {rows.start} to {rows.stop - 1} hold NaN or infinite values")
    return above


def _groups(queries: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each correct item its place among the correct items of its query with its score, and their number.

    Both arrays come sorted by query, then by score.
    """
    new = np.ones(len(scores), dtype=bool)
    new[1:] = (queries[1:] != queries[:-1]) | (scores[1:] != scores[:-1])
    first = np.flatnonzero(new)
    sizes = np.diff(np.append(first, len(scores)))
    return np.arange(len(scores)) - np.repeat(first, sizes), np.repeat(sizes, sizes)


# Cells of a block up to which it is counted before numba, which takes a second, has been imported.
_SMALL = 1 << 18
Counted = tuple[Int[np.ndarray, " thresholds"], bool]


def counts(
    scores: Float[Tensor, "rows items"],
    starts: Int[np.ndarray, " rows_and_one"],
    thresholds: Float[np.ndarray, " thresholds"],
    strictly: bool,
) -> Counted:
    """For each threshold the number of scores of its row above it, or if not ``strictly`` at least as high;
    and whether all scores are finite (the counts mean nothing if not).

    thresholds: in the precision of the scores, those of row r from ``starts[r]`` to ``starts[r + 1]``.
    """
    if scores.numel() > _SMALL and scores.is_cpu and scores.dtype in (torch.float32, torch.float64):
        return compiled(scores, starts, thresholds, strictly)
    return by_tensors(scores, starts, thresholds, strictly)


def compiled(scores: Tensor, starts: np.ndarray, thresholds: np.ndarray, strictly: bool) -> Counted:
    """``counts`` of float32 or float64 on the CPU, in one pass over them."""
    from vse_pipe.ranking.kernels import count

    above = np.empty(len(thresholds), np.int64)
    finite = count(scores.contiguous().numpy(), starts, thresholds, strictly, above)
    return above, bool(finite)


def by_tensors(scores: Tensor, starts: np.ndarray, thresholds: np.ndarray, strictly: bool) -> Counted:
    """``counts`` on the device of the scores: all first thresholds at once, then all second ones of the rows
    that have two, and so on. Memory: a copy of the block and a mask of its shape."""
    low, high = scores.aminmax()
    numbers = np.diff(starts)
    above = torch.zeros(len(thresholds), dtype=torch.int64, device=scores.device)
    bounds = torch.from_numpy(thresholds).to(scores.device)
    for turn in range(numbers.max(initial=0)):
        having = np.flatnonzero(numbers > turn)
        places = torch.from_numpy(starts[having] + turn).to(scores.device)
        rows = scores if len(having) == len(scores) else scores[torch.from_numpy(having).to(scores.device)]
        bound = bounds[places][:, None]
        above[places] = (rows > bound if strictly else rows >= bound).sum(dim=1)
    return above.cpu().numpy(), bool(low.isfinite() and high.isfinite())
