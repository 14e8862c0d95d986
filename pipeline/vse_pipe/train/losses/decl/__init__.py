"""Evidential learning: similarities are evidence of a Dirichlet distribution, whose spread counts as well (DECL, ACM MM 2022)."""

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from vse_pipe.core.strict import Strict


class Params(Strict):
    tau: PositiveFloat = 0.1
    """temperature of the evidence"""
    margin: NonNegativeFloat = 0.2
    """of the hinge, in units of tanh of the similarity"""
    hardest: PositiveInt = 5
    """negatives of a row and of a column that the hinge counts; under scheme ``decl`` the fewest of them"""
    lambda1: NonNegativeFloat = 0.8
    """weight of the hinge"""
    lambda2: NonNegativeFloat = 0.1
    """weight of the divergence that takes evidence from negatives"""
