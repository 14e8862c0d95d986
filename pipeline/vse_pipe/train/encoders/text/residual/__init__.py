"""One layer, and a branch of two beside it, on one vector a caption (the projection of VSE-infinity, CVPR 2021)."""

from vse_pipe.project.traits import TextEncoderTraits
from vse_pipe.train.engine.encoder.residual_options import ResidualOptions


class Params(ResidualOptions):
    """Those of ``ResidualOptions``, shared by both sides."""


TRAITS = TextEncoderTraits(reads="vectors")
