"""Mismatched pairs are found by their loss and rematched by partial optimal transport (L2RM, CVPR 2024)."""

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, model_validator

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import SchemeTraits


class Params(Strict):
    warm_up: NonNegativeInt = 5
    """epochs on all pairs"""
    warm_up_loss: Literal["infonce_rce", "infonce", "max"] = "infonce_rce"
    """InfoNCE with reverse cross entropy as the code always has it, InfoNCE alone, or the hardest triplets"""
    temperature: PositiveFloat = 0.05
    """of both InfoNCE and the rematching"""
    mass: Annotated[float, Field(gt=0, le=1)] = 0.1
    """share of a mismatched batch that is transported"""
    regularisation: PositiveFloat = 0.01
    """of the transport"""
    tolerance: PositiveFloat = 1e-3
    """where the transport's recursion stops. The authors' 1e-3 moves more than ``mass``: 0.042 for 0.025; with 1e-6 it is 0.025"""
    cost: Literal["learned", "cosine"] = "learned"
    """learned from similarities, or the cosine distance of features"""
    cost_lr: PositiveFloat = 2e-6
    """the rate it is learned at"""
    threshold: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """of the probability to be matched"""
    split: Literal["losses", "truth", "matched", "both"] = "losses"
    """for ablations, after the warm-up: pairs told apart by their losses, as ``inject`` left them, all trained on as matched
    (so the warm-up is all that is left of the scheme), or all trained on and rematched too"""
    mask: bool = True
    """nothing is transported to a pair's own caption; the authors switch it off on clean data"""
    rematch: Literal["symmetric_kl", "kl", "js", "infonce", "none"] = "symmetric_kl"
    """the loss of the mismatched; ``none`` leaves them out"""
    sample_loss: Literal["mean", "hardest"] = "mean"
    """of each pair over its batch"""
    margin: NonNegativeFloat = 0.2
    """of that loss"""
    clean: Literal["lower_mean", "code"] = "lower_mean"
    """how the matched component is chosen, the code's way or the paper's"""

    @model_validator(mode="after")
    def _of_parts(self) -> Self:
        if self.split == "both" and self.rematch == "none":
            raise ValueError(
                "split 'both' rematches all pairs, and rematch 'none' leaves that out; split 'matched' is without it"
            )
        return self


# A batch after the warm-up is two: matched pairs and mismatched ones.
TRAITS = SchemeTraits(parts=2)
