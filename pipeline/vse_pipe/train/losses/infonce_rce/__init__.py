"""InfoNCE with reverse cross entropy, to warm up on pairs some of which are mismatched (L2RM, CVPR 2024)."""

from pydantic import Field, PositiveFloat

from vse_pipe.core.strict import Strict
from vse_pipe.train.engine.loss.floor import FLOOR


class Params(Strict):
    tau: PositiveFloat = 0.05
    """temperature that similarities are divided by (0.05 in L2RM)"""
    floor: float = Field(FLOOR, gt=0, lt=1)
    """1e-7 in the authors' code; the smaller, the dearer a probability given to a negative: ``-log(floor)``"""
