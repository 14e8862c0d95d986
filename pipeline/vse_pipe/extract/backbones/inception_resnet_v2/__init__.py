"""Inception-ResNet-v2 (Szegedy et al., AAAI 2017): the 1536 pooled features of HAL's COCO experiments."""

from vse_pipe.extract.engine.params import ImageParams
from vse_pipe.project.traits import BackboneTraits


class Params(ImageParams):
    """Shorter side 333, centre crop 299, bicubic, mean and std 0.5: as timm evaluates these weights."""


TRAITS = BackboneTraits(trainable=True)
