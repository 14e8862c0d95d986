"""Nearest-neighbour search: the scores as they are."""

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import CriterionTraits


class Params(Strict):
    """No parameters."""


TRAITS = CriterionTraits(item_bias=True, neighbours=True)
