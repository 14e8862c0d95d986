"""Optimal matching: the matching with the largest sum of scores, which GM and RGM approximate."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.optimize import linprog
from scipy.sparse import csr_array

from vse_pipe.core.errors import InputError, PipelineError, UsageError
from vse_pipe.core.seeds import generator
from vse_pipe.ranking.inference.options import HungarianOptions as Params
from vse_pipe.ranking.matching import Allowance, MatchedPairs
from vse_pipe.ranking.scores import Scores, top_k

# Items per query beyond 3k in the first program, and additional ones in each further program. Fewer
# mean more programs.
_FIRST, _MORE = 20, 10
_TOLERANCE = 1e-7
Pairs = Int[np.ndarray, " pairs"]


def match(scores: Scores, settings: Sequence[Allowance], params: Params) -> Iterator[MatchedPairs]:
    """For each K the pairs with the largest sum of scores among the largest matchings in which a
    query has at most K items and an item serves no more queries than under ``gm``. Pairs are
    ordered by score, then row and column.

    At K = 1 this is Kuhn's Hungarian matching, which the RGM paper (sections 2.2 and 3.3.3) calls
    exact and too slow. For K > 1 it names Murty's K best assignments, which may share all pairs but
    one; the b-matching is what Algorithm 1 approximates. Items are shuffled, so that the solver
    does not choose among equal sums by the order of a data set.

    Raises UsageError above ``most_pairs``."""
    queries, items = scores.shape
    if queries * items > params.most_pairs:
        raise UsageError(
            f"hungarian: {queries} x {items} are {queries * items} pairs, more than inference.hungarian.most_pairs "
            f"({params.most_pairs}); raise it, use rgm, or evaluate.protocol folds"
        )
    dense = torch.cat([scores.strip(rows).cpu() for rows in scores.strips()]).numpy()
    if not np.isfinite(dense).all():
        raise InputError("scores hold NaN or infinite values and cannot be matched")
    order = generator(0, "order of items in a matching").permutation(items)
    for setting in settings:
        quota = Allowance(setting.k, 1.0).quota(queries, items, params.mode)
        rows, places = optimum(dense[:, order], min(setting.k, items), min(quota, queries))
        columns = order[places]
        best_first = np.lexsort((columns, rows, -dense[rows, columns]))
        yield MatchedPairs(rows[best_first], columns[best_first])


def optimum(scores: Float[np.ndarray, "queries items"], k: int, quota: int) -> tuple[Pairs, Pairs]:
    """Rows and columns of the matched pairs, unordered: at most k items a query and ``quota``
    queries an item, and as many pairs as these allow; among such matchings the one with the largest
    sum, to 1e-7 of the range of scores.

    The constraints are those of a flow, so the simplex method of HiGHS gives a matching, with a
    price for each query and item. The program starts with the best items of each query; pairs
    outside of it whose score exceeds both prices are added until there are none."""
    lowest = float(scores.min())
    # HiGHS accepts prices within 1e-7 as optimal.
    unit = (scores.astype(np.float64) - lowest) / (float(scores.max()) - lowest or 1.0)
    keys = _start(unit, k, quota)
    while True:
        rows, columns = np.divmod(keys, scores.shape[1])
        is_matched, prices = _program(unit, rows, columns, k, quota)
        added = np.setdiff1d(_improving(unit, prices, k), keys, assume_unique=True)
        if not len(added):
            return rows[is_matched], columns[is_matched]
        keys = np.union1d(keys, added)


def _start(scores: Float[np.ndarray, "queries items"], k: int, quota: int) -> Pairs:
    """The pairs of the first program, as sorted places in the flattened scores."""
    queries, items = scores.shape
    # A matching of full size must be among them: items, or queries, in turn.
    if queries * k <= items * quota:
        dealt = np.arange(queries * k)
        full = dealt // k * items + dealt % items
    else:
        dealt = np.arange(items * quota)
        full = dealt % queries * items + dealt // quota
    best = top_k(torch.from_numpy(scores), 3 * k + _FIRST)[1].numpy()
    return np.union1d(full, best + np.arange(queries)[:, None] * items)


def _program(
    scores: Float[np.ndarray, "queries items"], rows: Pairs, columns: Pairs, k: int, quota: int
) -> tuple[np.ndarray, np.ndarray]:
    """Which of these pairs are matched, bool (pairs,), and the prices of queries, then of items."""
    queries, items = scores.shape
    ends = np.concatenate([rows, queries + columns])
    places = np.tile(np.arange(len(rows)), 2)
    uses = csr_array((np.ones(len(ends)), (ends, places)), shape=(queries + items, len(rows)))
    limits = np.repeat([float(k), float(quota)], scores.shape)
    # All places of the side with fewer places are filled: a matching of the largest size, whatever
    # the sign of the scores.
    full = (np.arange(queries + items) < queries) == (queries * k <= items * quota)
    constraints = {
        "A_eq": uses[full], "b_eq": limits[full], "A_ub": uses[~full], "b_ub": limits[~full]
    }  # fmt: skip
    solution = linprog(-scores[rows, columns], **constraints, bounds=(0, 1), method="highs-ds")
    if solution.status:
        raise PipelineError(f"hungarian: {queries} x {items} scores: {solution.message}")
    prices = np.empty(queries + items)
    prices[full], prices[~full] = -solution.eqlin.marginals, -solution.ineqlin.marginals
    return solution.x > 0.5, prices


def _improving(scores: Float[np.ndarray, "queries items"], prices: Float[np.ndarray, " ends"], k: int) -> Pairs:
    """For each query the items whose score exceeds both prices most, as places in the flattened
    scores. Up to k of them are already in the program."""
    queries, items = scores.shape
    excess = torch.from_numpy(scores - prices[:queries, None] - prices[queries:])
    gain, columns = excess.topk(min(k + _MORE, items))
    places = columns + torch.arange(queries)[:, None] * items
    return places[gain > _TOLERANCE].numpy()
