"""Cosine: the inner product of unit vectors."""

from vse_pipe.core.strict import Strict


class Params(Strict):
    """No parameters."""
