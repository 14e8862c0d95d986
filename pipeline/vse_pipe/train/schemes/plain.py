"""The loss of each batch without state: vsepp, HAL without memory bank, order embeddings, two-branch networks."""

from vse_pipe.train.scheme import Scheme, Setting
from vse_pipe.train.schemes.options import PlainOptions as Params


def scheme(setting: Setting, params: Params) -> Scheme:
    return Scheme(setting)
