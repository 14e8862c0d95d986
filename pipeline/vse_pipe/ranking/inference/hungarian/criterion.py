"""The optimal matching of queries and items, once for each K."""

from collections.abc import Iterator, Sequence

import numpy as np

from vse_pipe.core.errors import UsageError
from vse_pipe.ranking.engine.matching import Allowance, MatchedPairs
from vse_pipe.ranking.engine.scores import Scores
from vse_pipe.ranking.inference.hungarian import Params
from vse_pipe.ranking.inference.hungarian.optimum import optimum


def match(scores: Scores, settings: Sequence[Allowance], params: Params) -> Iterator[MatchedPairs]:
    """For each K the pairs with the largest sum of scores among the largest matchings in which a query has at most K items
    and an item serves no more queries than under ``gm``. Pairs come by score, then row and column.

    At K = 1 this is Kuhn's Hungarian matching, which the RGM paper (sections 2.2 and 3.3.3) names as exact and too slow. For
    K > 1 it names Murty's K best assignments, which are K whole matchings that may share all pairs but one and give no query
    K items; the b-matching is what Algorithm 1 approximates. Where several matchings have the largest sum, which of them
    comes out is the solver's choice, the same for the same scores; items that score the same for a query count as wrong first.

    Raises UsageError above ``most_pairs``.
    """
    queries, items = scores.shape
    if queries * items > params.most_pairs:
        raise UsageError(
            f"hungarian: {queries} x {items} are {queries * items} pairs, more than inference.hungarian.most_pairs "
            f"({params.most_pairs}); raise it, use rgm, or evaluate.protocol folds"
        )
    for setting in settings:
        quota = Allowance(setting.k, 1.0).quota(queries, items, params.mode)
        rows, columns, values = optimum(scores, min(setting.k, items), min(quota, queries))
        order = np.lexsort((columns, rows, -values))
        rows, columns, values = rows[order], columns[order], values[order]
        yield MatchedPairs(rows, columns, scores=values, tied=np.ones(len(rows), bool), same=np.arange(queries))
