"""SUM: every violation counts (VSE0 of the VSE++ paper; Kiros et al. 2014)."""

from pydantic import NonNegativeFloat

from pipeline.core.strict import Strict


class Params(Strict):
    margin: NonNegativeFloat = 0.2
    """distance, in units of the similarity, by which a positive must beat each negative"""
