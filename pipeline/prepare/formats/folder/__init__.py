"""A folder of pictures, and those in it, without captions: what is embedded and searched, never trained on or measured."""

from pipeline.core.strict import Strict


class Params(Strict):
    pass
