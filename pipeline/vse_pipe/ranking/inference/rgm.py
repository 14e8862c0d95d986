"""Relaxed greedy matching: the best pairs first, with a limit on the number of queries per item."""

from collections.abc import Iterator, Sequence

from vse_pipe.ranking.inference.options import RgmOptions as Params
from vse_pipe.ranking.matching import Allowance, MatchedPairs, greedy
from vse_pipe.ranking.scores import Scores


def match(scores: Scores, settings: Sequence[Allowance], params: Params) -> Iterator[MatchedPairs]:
    """Algorithm 1 of the RGM paper (section 3.3.3), once per setting: R@K has its own run with k =
    K.

    ``mode: literal`` is the algorithm as printed. It stops after min(queries, items) k pairs, which
    caps text-to-image R@1 at 20% with five captions an image, less than the paper's own Table 4.
    The default ``rows`` therefore scales an item's quota by queries / items where that exceeds 1,
    and continues until every query has k items or no pair is left. A query without a match counts
    as a miss."""
    return greedy(scores, settings, params.mode)
