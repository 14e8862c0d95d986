"""Random filters and max pooling: features of simple pictures without any trained weights, in seconds on a CPU."""

from typing import Self

from pydantic import PositiveInt, model_validator

from vse_pipe.extract.engine.params import FeatureParams
from vse_pipe.project.traits import BackboneTraits


class Params(FeatureParams):
    filters: PositiveInt = 256
    """their number, half the number of features"""
    size: PositiveInt = 7
    """of the filters, in pixels of the image after it has been scaled to image_size x image_size (the aspect
    ratio is not kept, nothing is cut off)"""
    stride: PositiveInt = 2
    """of the filters, in pixels of the image after it has been scaled to image_size x image_size (the aspect
    ratio is not kept, nothing is cut off)"""
    image_size: PositiveInt = 64
    """its side in pixels"""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.size > self.image_size:
            raise ValueError(f"size {self.size} is larger than image_size {self.image_size}")
        return self


TRAITS = BackboneTraits(trainable=True)
