"""The image branch of a two-branch network (structure-preserving embeddings)."""

from vse_pipe.train.engine.encoder.branch_options import Options


class Params(Options):
    """Those of ``Options``, shared by both branches."""
