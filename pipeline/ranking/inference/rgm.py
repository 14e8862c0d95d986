"""Relaxed greedy matching: the best pairs first, with a limit on how many queries an item may serve."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field

from pipeline.core.strict import Strict
from pipeline.ranking.engine.matching import Allowance, MatchedPairs, greedy
from pipeline.ranking.engine.scores import Scores

Relaxation = Annotated[float, Field(ge=1.0, allow_inf_nan=False)]


class Params(Strict):
    """lam: the relaxation factor lambda; without it, per K and direction the value of ``grid`` with the best R@K on
    the validation split. grid: the values to choose from, by default the range that Fig. 4 of the paper scans. mode:
    ``rows`` gives every query its k items, ``literal`` stops where Algorithm 1 as printed does.
    """

    mode: Literal["rows", "literal"] = "rows"
    lam: Relaxation | None = None
    grid: list[Relaxation] = Field(min_length=1, default_factory=lambda: [1 + step / 4 for step in range(37)])

    def lambdas(self) -> list[float]:
        """The values to choose from."""
        return sorted(set(self.grid)) if self.lam is None else [self.lam]


def match(scores: Scores, settings: Sequence[Allowance], params: Params) -> Iterator[MatchedPairs]:
    """Algorithm 1 of the RGM paper (section 3.3.3), once per setting: R@K comes from its own run with k = K.

    ``mode: literal`` is the algorithm as printed. It stops after min(queries, items) k pairs, which caps text-to-image
    R@1 at 20% with five captions an image, less than the paper's own Table 4; so ``rows``, the default, scales an
    item's quota by queries / items where that exceeds 1 and goes on until every query has k items or no pair is left.
    A query without a match counts as a miss.
    """
    return greedy(scores, settings, params.mode)
