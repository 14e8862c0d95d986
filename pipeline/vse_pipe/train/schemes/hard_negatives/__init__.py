"""Hard negative mining: proposals that lie nearer to a phrase than its ground truth become its negatives (Wang et al. 2016)."""

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveInt

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import SchemeTraits


class Params(Strict):
    """Defaults: section 3.3."""

    after: NonNegativeInt = 28
    """epochs before the mining; those that follow train on what was mined, by the terms across images and texts alone"""
    most: PositiveInt = 50
    """proposals kept for each phrase, drawn at random"""
    iou: Annotated[float, Field(gt=0, le=1)] | None = 0.5
    """a proposal that overlaps a ground truth of the phrase so far is no negative; null: nothing is left out"""
    each: PositiveInt = 5
    """mined proposals that every phrase of a batch brings along (the paper does not say)"""


TRAITS = SchemeTraits(losses=("structure",), regions=True)
