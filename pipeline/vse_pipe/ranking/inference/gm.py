"""Greedy matching: RGM without relaxation."""

from collections.abc import Iterator, Sequence

from vse_pipe.ranking.inference.options import GmOptions as Params
from vse_pipe.ranking.matching import Allowance, MatchedPairs, greedy
from vse_pipe.ranking.scores import Scores


def match(scores: Scores, settings: Sequence[Allowance], params: Params) -> Iterator[MatchedPairs]:
    """Kollias et al.'s greedy matching, which the RGM paper runs once per K with lambda 1 (section
    3.3.3).

    One-to-one at K = 1 where there are no more queries than items. Otherwise ``mode: rows`` lets an
    item serve queries / items queries: 1000 images cannot answer 5000 captions one to one."""
    return greedy(scores, [Allowance(setting.k, 1.0) for setting in settings], params.mode)
