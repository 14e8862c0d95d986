"""MAX: only the hardest negative of the batch counts (VSE++)."""

from pydantic import NonNegativeFloat

from vse_pipe.project.traits import LossTraits
from vse_pipe.train.engine.loss.curriculum import Curriculum


class Params(Curriculum):
    margin: NonNegativeFloat = 0.2
    """distance, in units of the similarity, by which a positive must beat its hard negative"""


TRAITS = LossTraits(stuck=True)
