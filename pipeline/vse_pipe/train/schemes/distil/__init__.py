"""Similarities drawn to those of models that are trained already, beside the run's own loss (distillation)."""

from pydantic import NonNegativeFloat, PositiveFloat

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import SchemeTraits


class Params(Strict):
    weight: NonNegativeFloat = 1.0
    """of the distance from the teacher, beside 1 of the run's own loss"""
    tau: PositiveFloat = 0.05
    """temperature that the run's similarities are divided by in it"""
    teacher_tau: PositiveFloat = 0.05
    """the same of the teacher's"""


TRAITS = SchemeTraits(teacher=True)
