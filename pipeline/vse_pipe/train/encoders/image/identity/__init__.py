"""The features of an image as they are, at unit length: one side of a pretrained pair."""

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import ImageEncoderTraits


class Params(Strict):
    """No parameters."""


TRAITS = ImageEncoderTraits(learns=False)
