"""ensembles.<name> of params.yaml."""

import math
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveInt

from vse_pipe.core.strict import Strict

TUNED = "tuned"
Fusion = Literal["mean", "zscore", "rrf"]


class EnsembleNode(Strict):
    """ensembles.<name>: runs of one data set that are evaluated as one model, ``first`` and ``second`` or any number of ``runs``."""

    first: str | None = None
    """names under runs"""
    second: str | None = None
    """names under runs"""
    runs: Annotated[list[str], Field(min_length=1)] | None = None
    """names under runs, instead of first and second; a run with seeds stands for all its models"""
    weights: list[NonNegativeFloat] | Literal["tuned"] | None = None
    """proportions, one a run (for a run with seeds: one a model); ``tuned``: chosen on val; null: equal"""
    fusion: Fusion = "mean"
    """mean of the scores, of each query's scores at mean 0 and deviation 1 (``zscore``), or of 1 / (60 + rank)
    (``rrf``)"""
    cascade: PositiveInt | None = None
    """the second run sorts this many best items of the first, for each query; no fusion"""
    row: str | None = None
    """row of a paper's table that it repeats"""

    @property
    def members(self) -> tuple[str, ...]:
        """The runs, in order."""
        return tuple(self.runs or [one for one in (self.first, self.second) if one is not None])

    @property
    def shares(self) -> tuple[float, ...]:
        """The weights with a sum of 1, equal ones where none are given. Raises ValueError where they are to be chosen."""
        if isinstance(self.weights, str):
            raise ValueError("the weights are chosen on val")
        weights = self.weights or [1.0] * len(self.members)
        return tuple(weight / sum(weights) for weight in weights)

    def tells(self, told: dict) -> bool:
        """Whether ``ensemble`` in an evaluation's metrics.json speaks of this entry; of a pair nothing is told."""
        if self.pair:
            return not told
        if told.get("runs") != list(self.members) or told.get("cascade") != self.cascade:
            return False
        if self.cascade is not None:
            return True
        if self.weights == TUNED:
            return (told.get("fusion"), told.get("weights_from")) == (self.fusion, "val")
        given = zip(told.get("weights", ()), self.shares, strict=True)
        return told.get("fusion") == self.fusion and all(math.isclose(*pair, abs_tol=1e-3) for pair in given)

    @property
    def pair(self) -> bool:
        """``first`` and ``second`` and no more said: the mean, taken of the two scores themselves."""
        return self.cascade is None and self.runs is None and self.weights is None and self.fusion == "mean"
