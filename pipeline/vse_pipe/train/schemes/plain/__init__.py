"""The loss of each batch by itself, nothing kept: vsepp, HAL without memory bank, order embeddings, two-branch networks."""

from vse_pipe.core.strict import Strict


class Params(Strict):
    """No parameters."""
