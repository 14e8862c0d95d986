"""HAL: hubness-aware loss; weights of a memory bank come in with the batch (HAL, AAAI 2020)."""

from typing import Literal

from pydantic import PositiveFloat

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import LossTraits


class Params(Strict):
    """The defaults train on small and large sets at every rate that was tried (docs/losses.md). Table 3 of the paper has gamma 30
    and eps 0.3 for MS-COCO (row 3.3), 60 and 0.7 for Flickr30k (row 3.8)."""

    gamma: PositiveFloat = 20.0
    """inverse temperature"""
    eps: float = 0.7
    """the similarity above which a negative starts to hurt"""
    variant: Literal["extended", "paper", "code"] = "extended"
    """``paper``, the authors' ``code``, or ``extended``: the paper's, which also pulls pairs together whose similarity is below 0"""


# Similarities that are never above 0 would never reach the logarithm.
TRAITS = LossTraits(above_zero=True, stuck=True)
