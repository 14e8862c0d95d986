"""CSLS: scores less the mean similarity of the neighbourhoods they fall in."""

from pydantic import Field, PositiveInt

from pipeline.core.strict import Strict
from pipeline.project.traits import CriterionTraits
from pipeline.ranking.engine.grid import combinations


class Params(Strict):
    """k: neighbours averaged, captions or images alike (10 in MUSE); two_sided: subtract the query's mean too.

    k_grid: values of k to try under evaluate.tune.
    """

    k: PositiveInt = 10
    two_sided: bool = True
    k_grid: list[PositiveInt] = Field(min_length=1, default_factory=lambda: [1, 2, 5, 10, 20, 50])

    def candidates(self) -> list["Params"]:
        return combinations(self, k=self.k_grid)


TRAITS = CriterionTraits(item_bias=True)
