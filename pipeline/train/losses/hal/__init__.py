"""HAL: hubness-aware loss; weights of a memory bank come in with the batch (HAL, AAAI 2020)."""

from typing import Literal

from pydantic import PositiveFloat

from pipeline.core.strict import Strict
from pipeline.project.traits import LossTraits


class Params(Strict):
    """Defaults: Table 3, MS-COCO (row 3.3); the paper has 60 and 0.7 for Flickr30k (row 3.8)."""

    gamma: PositiveFloat = 30.0
    """inverse temperature"""
    eps: float = 0.3
    """the similarity above which a negative starts to hurt"""
    variant: Literal["paper", "code"] = "paper"
    """``paper`` or the authors' ``code``"""


# log(1 + relu(S)) is 0 for every S up to 0, and so is its gradient: nothing would pull a pair together.
TRAITS = LossTraits(above_zero=True, stuck=True)
