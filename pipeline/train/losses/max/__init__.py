"""MAX: only the hardest negative of the batch counts (VSE++)."""

from pydantic import NonNegativeFloat

from pipeline.core.strict import Strict
from pipeline.project.traits import LossTraits


class Params(Strict):
    margin: NonNegativeFloat = 0.2
    """distance, in units of the similarity, by which a positive must beat its hard negative"""


TRAITS = LossTraits(stuck=True)
