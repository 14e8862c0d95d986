"""How far each pair is trusted is a number that each visit refines by the model's own judgement (CRCL, NeurIPS 2023)."""

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveInt

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import SchemeTraits


class Params(Strict):
    warm_up: NonNegativeInt = 2
    """epochs after each start of the network in which targets stay as they are"""
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.8
    """the share of a target that stays at a visit"""
    floor: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """targets below become 0; 0 for none, the authors' code without ``confident``"""
    restarts: list[PositiveInt] = Field(default_factory=list)
    """epochs after each of which the network is made anew and keeps the targets alone. The authors have 8, 8 and 8,
    then 27, for Flickr30k and MS-COCO, and 4, 4 and 4, then 22, for CC152K"""


TRAITS = SchemeTraits(losses=("crcl",))
