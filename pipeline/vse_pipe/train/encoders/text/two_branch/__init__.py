"""The text branch of a two-branch network (structure-preserving embeddings); reads one vector a caption."""

from vse_pipe.project.traits import TextEncoderTraits
from vse_pipe.train.engine.encoder.branch_options import Options


class Params(Options):
    """Those of ``Options``, shared by both branches."""


TRAITS = TextEncoderTraits(reads="vectors")
