"""Nothing beside the loss."""

from pipeline.train.engine.scheme.scheme import Scheme, Setting
from pipeline.train.schemes.plain import Params


def scheme(setting: Setting, params: Params) -> Scheme:
    return Scheme(setting)
