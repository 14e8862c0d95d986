"""The options of samplers."""

from pydantic import NonNegativeInt, PositiveInt

from vse_pipe.core.strict import Strict


class CaptionsOptions(Strict):
    extra_positives: NonNegativeInt = 0
    """further captions of each image of a batch; 1 for loss ``structure``"""
    extra_images: NonNegativeInt = 0
    """further images of each caption of a batch; 1 for phrases. Only captions that read alike
    and count as one have several"""


class ImagesOptions(Strict):
    captions: PositiveInt = 1
    """captions of each image, drawn without repetition; images with fewer give all"""
