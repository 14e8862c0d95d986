"""Dual inverted softmax: an item is penalised for being near to the bank's queries and near to the bank's items."""

from pydantic import Field

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import CriterionTraits
from vse_pipe.ranking.engine.bounds import InverseTemperature
from vse_pipe.ranking.engine.grid import combinations


class Params(Strict):
    beta: InverseTemperature = 50.0
    """inverse temperature of the query bank"""
    gallery_beta: InverseTemperature = 1.0
    """of the gallery bank. The authors' code has 1/1.99 and 3, which leave cosine scores all but as they are; 50
    and 1 are the values of the DBSN repository (temperature 0.02 and 1)"""
    beta_grid: list[InverseTemperature] = Field(
        min_length=1, default_factory=lambda: [1.0, 5.0, 10.0, 20.0, 30.0, 50.0, 100.0]
    )
    """values to try under evaluate.tune"""
    gallery_beta_grid: list[InverseTemperature] = Field(min_length=1, default_factory=lambda: [0.5, 1.0, 3.0, 10.0])
    """values to try under evaluate.tune"""

    def candidates(self) -> list["Params"]:
        return combinations(self, beta=self.beta_grid, gallery_beta=self.gallery_beta_grid)


TRAITS = CriterionTraits(item_bias=True)
