"""Mutual proximity: how sure both sides are of each other, each judged by its own similarities."""

from vse_pipe.core.strict import Strict


class Params(Strict):
    """No parameters: similarities are taken for normal."""
