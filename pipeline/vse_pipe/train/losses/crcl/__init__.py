"""Active complementary learning: a pair is pulled together as far as it is trusted, and negatives are pushed apart (CRCL, NeurIPS 2023)."""

from pydantic import NonNegativeFloat, PositiveFloat

from vse_pipe.core.strict import Strict


class Params(Strict):
    tau: PositiveFloat = 0.05
    """temperature that similarities are divided by"""
    complementary: NonNegativeFloat = 5.0
    """weight of the negatives' part beside the cross entropy of the positives; 5 in the authors' code"""
