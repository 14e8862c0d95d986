"""HAL's memory bank: hubs are sought in a share of the training set, not only in the batch (HAL, AAAI 2020, Eq. 6)."""

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from pipeline.core.strict import Strict
from pipeline.project.traits import SchemeTraits


class Params(Strict):
    """alpha, beta: inverse temperatures of the positives' and the negatives' weight; eps1, eps2: margins of positive and of
    bank similarities; k: neighbours looked up in the bank; variant: Eq. 6 as printed, or the authors' ``code``.
    share: of the training pairs in the bank (the paper's 5 %); exclude: entries left out of the neighbourhoods, those
    whose caption is in the batch (the authors' code), or those of each pair's own image as well. Table 3 of the paper
    has alpha 40, beta 40, eps1 0.2, eps2 0.1; it does not give k, the authors' code has 250.
    """

    alpha: PositiveFloat = 40.0
    beta: PositiveFloat = 40.0
    eps1: float = 0.2
    eps2: float = 0.1
    k: PositiveInt = 250
    variant: Literal["paper", "code"] = "paper"
    share: Annotated[float, Field(gt=0, le=1)] = 0.05
    exclude: Literal["caption", "image"] = "caption"


# Neighbours are sought among vectors: fragments of the whole bank against every batch would cost more than the epoch.
TRAITS = SchemeTraits(losses=("hal",), similarities=("cosine", "order"))
