"""Sigmoid: every cell of a batch by itself is a pair or none, on a learned scale (SigLIP, ICCV 2023)."""

from pydantic import PositiveFloat

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import LossTraits


class Params(Strict):
    scale: PositiveFloat = 10.0
    """what similarities are multiplied by, at first; learned as its logarithm"""
    bias: float = -10.0
    """added to them, at first; learned. -2.71 where both sides start from frozen networks that have been trained"""
    lr: PositiveFloat | None = None
    """learning rate of both; null: ``train.lr``, under which a short run hardly moves them"""


TRAITS = LossTraits(learns=True)
