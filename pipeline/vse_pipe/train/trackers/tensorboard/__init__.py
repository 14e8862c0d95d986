"""TensorBoard: event files in data/track/tensorboard/<run>."""

from vse_pipe.core.strict import Strict


class Params(Strict):
    """No options."""
