"""One linear layer on precomputed features (VSE++ EncoderImagePrecomp)."""

from pipeline.core.strict import Strict


class Params(Strict):
    """no_imgnorm: leave the image side unnormalised (VSE0); use_abs: absolute values after normalising (order)."""

    no_imgnorm: bool = False
    use_abs: bool = False
