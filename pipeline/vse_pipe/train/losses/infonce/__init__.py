"""InfoNCE in both directions: every other pair of the batch is a class of its own (L2RM, CVPR 2024)."""

from typing import Self

from pydantic import PositiveFloat, model_validator

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import LossTraits


class Params(Strict):
    tau: PositiveFloat = 0.05
    """temperature that similarities are divided by; 0.05 in L2RM's paper and code"""
    learn: bool = False
    """it is where the temperature starts; its logarithm is trained with the model, and it stays at 0.01 or above (CLIP)"""
    lr: PositiveFloat | None = None
    """with ``learn``, its learning rate; null: ``train.lr``, under which a short run hardly moves it"""

    @model_validator(mode="after")
    def _of_what_is_learned(self) -> Self:
        if self.lr is not None and not self.learn:
            raise ValueError("lr is of a temperature that is learned; set learn: true")
        return self


TRAITS = LossTraits(learns=True)
