"""QB-Norm: the inverted softmax for those queries only whose best item is a hub of the bank."""

from pydantic import Field, PositiveInt

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import CriterionTraits
from vse_pipe.ranking.engine.bounds import InverseTemperature
from vse_pipe.ranking.engine.grid import combinations


class Params(Strict):
    beta: InverseTemperature = 20.0
    """inverse temperature"""
    k: PositiveInt = 1
    """an item is in the activation set when it is among the best k of a bank query (20 and 1 in the authors' code)"""
    beta_grid: list[InverseTemperature] = Field(
        min_length=1, default_factory=lambda: [1.0, 5.0, 10.0, 20.0, 30.0, 50.0, 100.0]
    )
    """values to try under evaluate.tune"""
    k_grid: list[PositiveInt] = Field(min_length=1, default_factory=lambda: [1, 5, 10])
    """values to try under evaluate.tune"""

    def candidates(self) -> list["Params"]:
        return combinations(self, k=self.k_grid, beta=self.beta_grid)


# Corrected and raw rows are on different scales: a matching, which compares rows, makes no sense of them.
TRAITS = CriterionTraits(comparable_rows=False)
