"""Mismatched pairs are found by their loss and rematched by partial optimal transport (L2RM, CVPR 2024)."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat

from pipeline.core.strict import Strict
from pipeline.project.traits import SchemeTraits


class Params(Strict):
    """warm_up: epochs on all pairs; warm_up_loss: InfoNCE with reverse cross entropy as the code always has it, InfoNCE
    alone, or the hardest triplets. temperature: of both InfoNCE and the rematching. mass: share of a mismatched batch
    that is transported; regularisation: of the transport. cost: learned, or 1 - S; cost_lr: the rate it is learned at. threshold: of the
    probability to be matched. mask: nothing is transported to a pair's own caption; the authors switch it off on clean data.
    rematch: the loss of the mismatched. sample_loss: of each pair over its batch; margin: of that loss; clean: how the matched
    component is chosen, the code's way or the paper's.
    """

    warm_up: NonNegativeInt = 5
    warm_up_loss: Literal["infonce_rce", "infonce", "max"] = "infonce_rce"
    temperature: PositiveFloat = 0.05
    mass: Annotated[float, Field(gt=0, le=1)] = 0.1
    regularisation: PositiveFloat = 0.01
    cost: Literal["learned", "cosine"] = "learned"
    cost_lr: PositiveFloat = 2e-6
    threshold: Annotated[float, Field(ge=0, lt=1)] = 0.5
    mask: bool = True
    rematch: Literal["symmetric_kl", "kl", "js", "infonce"] = "symmetric_kl"
    sample_loss: Literal["mean", "hardest"] = "mean"
    margin: NonNegativeFloat = 0.2
    clean: Literal["lower_mean", "code"] = "lower_mean"


# A batch after the warm-up is two: matched pairs and mismatched ones.
TRAITS = SchemeTraits(parts=2)
