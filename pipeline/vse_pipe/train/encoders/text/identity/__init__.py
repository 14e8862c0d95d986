"""The vector of a caption as it is, at unit length: one side of a pretrained pair."""

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import TextEncoderTraits


class Params(Strict):
    """No parameters."""


TRAITS = TextEncoderTraits(reads="vectors", learns=False)
