"""HAL of the EMNLP 2019 paper: SUM or MAX on scores that grow with the neighbourhoods they lie in."""

from typing import Literal, Self

from pydantic import NonNegativeFloat, PositiveInt, model_validator

from vse_pipe.project.traits import LossTraits
from vse_pipe.train.engine.loss.curriculum import Curriculum


class Params(Curriculum):
    margin: NonNegativeFloat = 0.2
    """distance, on the rescaled similarity, by which a positive must beat a negative (paper: 0.2)"""
    k: PositiveInt = 3
    """neighbours whose mean is taken (the paper's 3; 1 in its row 2.23)"""
    reading: Literal["A", "B"] = "A"
    """which point Eq. 4 leaves out of the neighbours, ``A`` the match of image and of text, ``B`` the other
    member of the cell; Eq. 2's wording, where t is the text of image i, speaks for A"""
    gradient: Literal["detached", "full"] = "detached"
    """``detached``, the exponent is a constant weight as in the self-tuning of Zelnik-Manor and Perona that it
    follows, or ``full``"""
    negatives: Literal["sum", "max"] = "sum"
    """``sum`` (Eq. 2, the paper's default) or ``max`` (Eq. 3, its MAX+HAL)"""

    @model_validator(mode="after")
    def _comes_to_fewer(self) -> Self:
        if self.curriculum and self.negatives == "sum":
            raise ValueError("curriculum needs negatives: max; a sum counts all of them")
        return self


TRAITS = LossTraits(stuck=True)
