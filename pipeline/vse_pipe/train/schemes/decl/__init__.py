"""Pairs of little evidence count as mismatched, and the hinge turns to ever fewer negatives (DECL, ACM MM 2022)."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import SchemeTraits


class Params(Strict):
    warm_up: NonNegativeInt = 5
    """epochs with all pairs as matched"""
    eta: NonNegativeFloat = 0.025
    """negatives that the hinge leaves out more at each step: it counts ``train.batch_size - eta * step`` of them, and
    never fewer than the loss's ``hardest``"""
    matched: Literal["mixture", "code"] = "mixture"
    """the pairs that two normal distributions on the fits give to the upper one; or, as in the authors' public
    ``code``, those whose text fits their image best of the batch"""
    threshold: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """of the probability to be matched, under ``mixture``"""


TRAITS = SchemeTraits(losses=("decl",))
