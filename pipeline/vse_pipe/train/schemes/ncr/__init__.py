"""Two networks that tell each other which pairs to trust, and how far (NCR, NeurIPS 2021)."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import SchemeTraits

Variant = Literal["paper", "code"]
Shape = Literal["exponential", "linear", "sin"]


class Params(Strict):
    warm_up: NonNegativeInt = 5
    """epochs of both networks on all pairs"""
    threshold: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """of the probability to be clean"""
    soft_margin: Shape = "exponential"
    """how the margin follows the label"""
    margin: PositiveFloat = 0.2
    """that of a pair that surely fits"""
    variant: Variant = "paper"
    """the authors' ``code`` differs from the ``paper`` in two places: every label of a clean batch holds the
    prediction of the batch's first pair, and a negative image comes with the margin of its own pair"""
    noisy_from: Annotated[float, Field(ge=0, le=1)] = 0.5
    """the share of the epochs after the warm-up that train on clean pairs alone; 1 leaves the noisy ones out for
    good"""


# What the soft margin is made for; ``margin`` stands in the place of the loss's own.
TRAITS = SchemeTraits(losses=("max",))
