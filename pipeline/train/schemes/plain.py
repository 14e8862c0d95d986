"""The loss of each batch by itself, nothing kept: vsepp, HAL without memory bank, order embeddings, two-branch networks."""

from pipeline.core.strict import Strict
from pipeline.train.engine.scheme.scheme import Scheme, Setting


class Params(Strict):
    """No parameters."""


def scheme(setting: Setting, params: Params) -> Scheme:
    return Scheme(setting)
