"""Nothing beside the loss."""

from vse_pipe.train.engine.scheme.scheme import Scheme, Setting
from vse_pipe.train.schemes.plain import Params


def scheme(setting: Setting, params: Params) -> Scheme:
    return Scheme(setting)
