"""Relaxed greedy matching: the best pairs first, with a limit on how many queries an item may serve."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.core.strict import Strict
from pipeline.project.traits import CriterionTraits

Relaxation = Annotated[float, Field(ge=1.0, allow_inf_nan=False)]


class Params(Strict):
    mode: Literal["rows", "literal"] = "rows"
    """``rows`` gives every query its k items, ``literal`` stops where Algorithm 1 as printed does"""
    lam: Relaxation | None = None
    """the relaxation factor lambda; without it, per K and direction the value of ``grid`` with the best R@K on
    the validation split"""
    grid: list[Relaxation] = Field(min_length=1, default_factory=lambda: [1 + step / 4 for step in range(37)])
    """the values to choose from, by default the range that Fig. 4 of the paper scans"""

    def lambdas(self) -> list[float]:
        """The values to choose from."""
        return sorted(set(self.grid)) if self.lam is None else [self.lam]


TRAITS = CriterionTraits(matches=True)
