"""Inverted softmax: how much of an item's attention goes to this query, among all queries.

A keyword cannot follow ``import``: load this module by name, through ``vse_pipe.project.registry``.
"""

from pydantic import Field

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import CriterionTraits
from vse_pipe.ranking.engine.bounds import InverseTemperature
from vse_pipe.ranking.engine.grid import combinations


class Params(Strict):
    beta: InverseTemperature = 30.0
    """inverse temperature"""
    include_query: bool = False
    """sum over all queries, as MUSE does, not over the others (Eq. 5). No ranking and no matching changes: with the share p of
    MUSE's form, Eq. 5 is p / (1 - p), which grows with p. Shares that float32 cannot tell from 1 tie, so leave it false where
    scores are large"""
    beta_grid: list[InverseTemperature] = Field(
        min_length=1, default_factory=lambda: [1.0, 5.0, 10.0, 20.0, 30.0, 50.0, 100.0]
    )
    """values of beta to try under evaluate.tune"""

    def candidates(self) -> list["Params"]:
        return combinations(self, beta=self.beta_grid)


TRAITS = CriterionTraits(item_bias=True)
