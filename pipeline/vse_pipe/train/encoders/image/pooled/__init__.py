"""One linear layer on every region of an image, and one vector of them all (VSE-infinity, CVPR 2021)."""

from typing import Annotated, Literal

from pydantic import Field

from vse_pipe.core.strict import Strict


class Params(Strict):
    pooling: Literal["gpo", "mean", "max"] = "gpo"
    """of the regions' vectors; ``gpo`` learns how much the largest, second largest, ... number of each dimension counts"""
    drop: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.2
    """share of the regions left out at random, in training (the authors: 0.2)"""
    no_imgnorm: bool = False
    """leave the image side unnormalised"""
    use_abs: bool = False
    """absolute values after normalising (order)"""
