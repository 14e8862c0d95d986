"""HAL's memory bank: hubs are sought in a share of the training set, not only in the batch (HAL, AAAI 2020, Eq. 6)."""

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import SchemeTraits


class Params(Strict):
    """Defaults: Table 3 of the paper, row 3.4."""

    alpha: PositiveFloat = 40.0
    """inverse temperature of the positives' weight"""
    beta: PositiveFloat = 40.0
    """inverse temperature of the negatives' weight"""
    eps1: float = 0.2
    """margin of positive similarities"""
    eps2: float = 0.1
    """margin of bank similarities"""
    k: PositiveInt = 250
    """neighbours looked up in the bank (250 in the authors' code; the paper gives none)"""
    variant: Literal["paper", "code"] = "paper"
    """Eq. 6 as printed, or the authors' ``code``"""
    share: Annotated[float, Field(gt=0, le=1)] = 0.05
    """of the training pairs in the bank (the paper's 5 %)"""
    exclude: Literal["caption", "image"] = "caption"
    """entries left out of the neighbourhoods, those whose caption is in the batch (the authors' code), or those of
    each pair's own image as well"""


# Neighbours are sought among vectors: fragments of the whole bank against every batch would cost more than the epoch.
TRAITS = SchemeTraits(losses=("hal",), similarities=("cosine",))
