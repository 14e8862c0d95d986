"""The options of samplers."""

from pydantic import NonNegativeInt, PositiveInt

from vse_pipe.core.strict import Strict


class CaptionsOptions(Strict):
    extra_positives: NonNegativeInt = 0
    """further captions added for each image of a batch, as structure-preserving training needs them (one)"""
    extra_images: NonNegativeInt = 0
    """further images added for each caption of a batch (one, for phrases); only where texts that read alike are one has a
    caption any"""
    bucket: PositiveInt = 1
    """batches that are filled from one pool sorted by caption length; 1 leaves the order fully random"""


class ImagesOptions(Strict):
    captions: PositiveInt = 1
    """of each image, drawn without repetition; images with fewer give all they have"""
