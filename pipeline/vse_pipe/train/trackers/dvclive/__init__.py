"""DVCLive: metrics.json, params.yaml and a table of each figure in data/track/dvclive/<run>."""

from vse_pipe.core.strict import Strict


class Params(Strict):
    """No options."""
