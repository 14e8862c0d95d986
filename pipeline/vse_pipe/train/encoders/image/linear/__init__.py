"""One linear layer on precomputed features (VSE++ EncoderImagePrecomp)."""

from vse_pipe.core.strict import Strict


class Params(Strict):
    no_imgnorm: bool = False
    """leave the image side unnormalised (VSE0)"""
    use_abs: bool = False
    """absolute values after normalising (order)"""
