"""Greedy matching: RGM without relaxation."""

from typing import Literal

from pipeline.core.strict import Strict
from pipeline.project.traits import CriterionTraits


class Params(Strict):
    mode: Literal["rows", "literal"] = "rows"
    """``rows`` gives every query its k items, ``literal`` stops where Algorithm 1 as printed does"""

    def lambdas(self) -> list[float]:
        return [1.0]


TRAITS = CriterionTraits(matches=True)
