"""Cosine: the inner product of unit vectors."""

from pipeline.core.strict import Strict


class Params(Strict):
    """No parameters."""
