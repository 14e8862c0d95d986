"""TensorBoard: event files in data/track/tensorboard/<run>."""

from pipeline.core.strict import Strict


class Params(Strict):
    """No options."""
