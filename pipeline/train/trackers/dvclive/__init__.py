"""DVCLive: metrics.json, params.yaml and a table of each figure in data/track/dvclive/<run>."""

from pipeline.core.strict import Strict


class Params(Strict):
    """No options."""
