"""Sinkhorn normalisation: every item gets the same share of the attention of the bank, and every query gives the same."""

from pydantic import Field, PositiveFloat, PositiveInt

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import CriterionTraits
from vse_pipe.ranking.engine.bounds import Temperature
from vse_pipe.ranking.engine.grid import combinations


class Params(Strict):
    tau: Temperature = 0.05
    """temperature of the transport"""
    tolerance: PositiveFloat = 1e-3
    """on the residual, the largest relative error of a bank query's marginal"""
    max_iterations: PositiveInt = 500
    """when to give up on it"""
    tau_grid: list[Temperature] = Field(min_length=1, default_factory=lambda: [0.01, 0.02, 0.03, 0.05, 0.1])
    """values to try under evaluate.tune"""

    def candidates(self) -> list["Params"]:
        return combinations(self, tau=self.tau_grid)


TRAITS = CriterionTraits(item_bias=True)
