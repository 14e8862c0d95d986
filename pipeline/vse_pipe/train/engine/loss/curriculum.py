"""The option of every loss of margins: fewer and harder negatives as training goes on."""

from pydantic import NonNegativeFloat

from vse_pipe.core.strict import Strict


class Curriculum(Strict):
    """The base of the options of losses of margins."""

    curriculum: NonNegativeFloat = 0.0
    """epochs, parts of one too, over which the negatives that count become evenly fewer, the hardest staying: from all of
    the batch to those of the loss itself; 0: those alone, from the first step on"""
