"""The features of an image as they are, at unit length: one side of a pretrained pair."""

from pipeline.core.strict import Strict
from pipeline.project.traits import ImageEncoderTraits


class Params(Strict):
    """No parameters."""


TRAITS = ImageEncoderTraits(learns=False)
