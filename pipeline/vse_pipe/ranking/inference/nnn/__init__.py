"""NNN: scores less a share of the item's similarity to its nearest reference queries."""

from pydantic import Field, PositiveInt

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import CriterionTraits
from vse_pipe.ranking.engine.bounds import Share
from vse_pipe.ranking.engine.grid import combinations


class Params(Strict):
    k: PositiveInt = 128
    """reference queries averaged"""
    alpha: Share = 0.75
    """how much of their mean is taken off. 128 and 0.75 are what the authors' README uses (their classes default
    to 256 and 0.5)"""
    k_grid: list[PositiveInt] = Field(min_length=1, default_factory=lambda: [8, 16, 32, 64, 128, 256])
    """values to try under evaluate.tune"""
    alpha_grid: list[Share] = Field(min_length=1, default_factory=lambda: [0.25, 0.5, 0.75, 1.0])
    """values to try under evaluate.tune"""

    def candidates(self) -> list["Params"]:
        return combinations(self, k=self.k_grid, alpha=self.alpha_grid)


TRAITS = CriterionTraits(item_bias=True, neighbours=True)
