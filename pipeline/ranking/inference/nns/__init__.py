"""Nearest-neighbour search: the scores as they are."""

from pipeline.core.strict import Strict
from pipeline.project.traits import CriterionTraits


class Params(Strict):
    """No parameters."""


TRAITS = CriterionTraits(item_bias=True, neighbours=True)
