"""HAL: hubness-aware loss; weights of a memory bank come in with the batch (HAL, AAAI 2020)."""

from typing import Literal

from pydantic import PositiveFloat

from pipeline.core.strict import Strict
from pipeline.project.traits import LossTraits


class Params(Strict):
    """gamma: inverse temperature; eps: the similarity above which a negative starts to hurt.

    Defaults: Table 3, MS-COCO (row 3.3); the paper has 60 and 0.7 for Flickr30k (row 3.8). variant: ``paper``
    or the authors' ``code``.
    """

    gamma: PositiveFloat = 30.0
    eps: float = 0.3
    variant: Literal["paper", "code"] = "paper"


TRAITS = LossTraits(stuck=True)
