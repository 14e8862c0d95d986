"""Positions of correct items, in rankings of all items and in answer lists of each query."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from vse_pipe.core.errors import InputError
from vse_pipe.ranking.metrics.graded import TIE_SHARES, Pairs, Starts
from vse_pipe.ranking.metrics.recall import Ties, Truth

Answers = Int64[np.ndarray, " answers"]


@dataclass(frozen=True)
class Listed:
    """positions, starts: as in ``metrics.graded``, infinite for correct items without an answer; gains, grades: as for
    ``metrics.graded.ndcg``; queries: their numbers, ascending."""

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
    """queries: number of each answer's query; grades: of each answer, 0 where not judged; absent: queries of graded
    items without an answer. An item with a grade above ``above`` is correct.

    Ties are those of ``positions`` and ``metrics.graded.gains``: among answers with the same score the wrong ones come
    first (pessimistic), then the correct ones by ascending grade.
    """
    correct = grades > above
    order = np.lexsort((-grades if ties == "optimistic" else grades, ~correct, -scores, queries))
    correct, owners, grades = correct[order], queries[order], grades[order]
    before, within, wrong, group = _places(owners, scores[order], correct)
    positions = (before + within + TIE_SHARES[ties] * wrong)[correct]
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
    """For each answer the number of the query's answers with a higher score, its place among those of the same score,
    the number of wrong answers among these, and the number of this group. Answers come by query and score."""
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
    """0-based positions of each query's correct items, ascending within a query, query after query as in
    ``truth.starts``. The first of a query is the rank of ``best_ranks``.

    Of the wrong items with exactly its score all (pessimistic), half (average) or none (optimistic) stand before a
    correct item; correct items with the same score follow each other. So with ``average`` a position may end in .5; two
    positions of a query differ by at least 1. Raises InputError on NaN or infinite scores, which would rank first, and
    on a query without a correct item.
    """
    starts = truth.starts[rows.start : rows.stop + 1] - truth.starts[rows.start]
    if len(bare := np.flatnonzero(np.diff(starts) == 0)):
        raise InputError(f"query {rows.start + bare[0]} has no correct item; every query needs one at least")
    local, columns = truth.correct_pairs(rows, scores.device)
    correct = scores[local, columns].cpu().numpy()
    queries = local.cpu().numpy()
    correct = correct[descending(queries, correct)]

    def count(strictly: bool) -> np.ndarray:
        numbers, finite = counts(scores, starts, correct, strictly)
        if not finite:
            raise InputError(f"scores of queries {rows.start} to {rows.stop - 1} hold NaN or infinite values")
        return numbers

    return counted(queries, correct, ties, count)


def descending(queries: Int[np.ndarray, " pairs"], scores: Float[np.ndarray, " pairs"]) -> Int[np.ndarray, " pairs"]:
    """The order for ``counted``: query after query, the highest score first."""
    return np.lexsort((-scores, queries))


def counted(
    queries: Int[np.ndarray, " pairs"],
    correct: Float[np.ndarray, " pairs"],
    ties: Ties,
    count: Callable[[bool], Int[np.ndarray, " pairs"]],
) -> Float[np.ndarray, " pairs"]:
    """``positions`` of correct items with these scores. count: scores of the query above each (True), or not below."""
    within, sizes = _groups(queries, correct)
    counts = []
    if ties != "pessimistic":
        counts.append(count(True) + within)
    if ties != "optimistic":
        counts.append(count(False) - sizes + within)
    return np.mean(counts, axis=0)


def _groups(queries: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each correct item its place among the query's correct items with the same score, and their number. Both
    arrays are sorted by query, then by score."""
    new = np.ones(len(scores), dtype=bool)
    new[1:] = (queries[1:] != queries[:-1]) | (scores[1:] != scores[:-1])
    first = np.flatnonzero(new)
    sizes = np.diff(np.append(first, len(scores)))
    return np.arange(len(scores)) - np.repeat(first, sizes), np.repeat(sizes, sizes)


# Blocks up to this number of cells are counted without numba, which takes a second to import.
_SMALL = 1 << 18
Counted = tuple[Int[np.ndarray, " thresholds"], bool]


def counts(
    scores: Float[Tensor, "rows items"],
    starts: Int[np.ndarray, " rows_and_one"],
    thresholds: Float[np.ndarray, " thresholds"],
    strictly: bool,
) -> Counted:
    """For each threshold the number of scores of its row above it, or not below it without ``strictly``, and whether
    all scores are finite (otherwise the counts have no meaning).

    thresholds: in the precision of the scores, for row r from ``starts[r]`` to ``starts[r + 1]``.
    """
    if scores.numel() > _SMALL and scores.is_cpu and scores.dtype in (torch.float32, torch.float64):
        return compiled(scores, starts, thresholds, strictly)
    return by_tensors(scores, starts, thresholds, strictly)


def compiled(scores: Tensor, starts: np.ndarray, thresholds: np.ndarray, strictly: bool) -> Counted:
    """``counts`` of float32 or float64 on the CPU, in one pass."""
    from vse_pipe.ranking.kernels import count

    above = np.empty(len(thresholds), np.int64)
    finite = count(scores.contiguous().numpy(), starts, thresholds, strictly, above)
    return above, bool(finite)


def by_tensors(scores: Tensor, starts: np.ndarray, thresholds: np.ndarray, strictly: bool) -> Counted:
    """``counts`` on the device of the scores: first all first thresholds, then the second ones of rows that have two,
    and so on. Memory: a copy of the block and a mask of its shape."""
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
