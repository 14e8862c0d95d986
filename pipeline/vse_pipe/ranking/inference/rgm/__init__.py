"""Relaxed greedy matching: the best pairs first, with a limit on how many queries an item may serve."""

from typing import Annotated

from pydantic import Field

from vse_pipe.project.traits import CriterionTraits
from vse_pipe.ranking.engine.matching_params import MatchingParams

Relaxation = Annotated[float, Field(ge=1.0, allow_inf_nan=False)]


class Params(MatchingParams):
    lam: Relaxation | None = None
    """the relaxation factor lambda; without it, per K and direction the value of ``grid`` with the best R@K on
    the validation split"""
    grid: list[Relaxation] = Field(min_length=1, default_factory=lambda: [1 + step / 4 for step in range(37)])
    """the values to choose from, by default the range that Fig. 4 of the paper scans"""

    def lambdas(self) -> list[float]:
        return sorted(set(self.grid)) if self.lam is None else [self.lam]


TRAITS = CriterionTraits(matches=True)
