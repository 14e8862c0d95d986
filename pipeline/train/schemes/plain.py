"""The loss of each batch by itself, nothing kept: vsepp, HAL without memory bank, order embeddings, two-branch networks."""

from pipeline.params.strict import Strict
from pipeline.train.schemes._scheme import Scheme, Setting


class Params(Strict):
    """No parameters."""


def scheme(setting: Setting, params: Params) -> Scheme:
    return Scheme(setting)
