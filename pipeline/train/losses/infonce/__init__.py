"""InfoNCE in both directions: every other pair of the batch is a class of its own (L2RM, CVPR 2024)."""

from pydantic import PositiveFloat

from pipeline.core.strict import Strict


class Params(Strict):
    tau: PositiveFloat = 0.05
    """temperature that similarities are divided by; 0.05 in L2RM's paper and code"""
