"""The image side of a pretrained pair (CLIP, SigLIP, MobileCLIP, CoCa): any model of open_clip, one vector an image."""

from vse_pipe.extract.engine.pair.params import PairParams
from vse_pipe.extract.engine.params import FeatureParams


class Params(PairParams, FeatureParams):
    """Texts of method ``open_clip`` with the same model and weights are its captions' side."""
