"""CSLS: scores less the mean similarity of the neighbourhoods they fall in."""

from pydantic import Field, PositiveInt

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import CriterionTraits
from vse_pipe.ranking.engine.grid import combinations


class Params(Strict):
    k: PositiveInt = 10
    """neighbours averaged, captions or images alike (10 in MUSE)"""
    two_sided: bool = True
    """subtract the query's mean too"""
    k_grid: list[PositiveInt] = Field(min_length=1, default_factory=lambda: [1, 2, 5, 10, 20, 50])
    """values of k to try under evaluate.tune"""

    def candidates(self) -> list["Params"]:
        return combinations(self, k=self.k_grid)


TRAITS = CriterionTraits(item_bias=True, neighbours=True)
