"""ResNet-152 (He et al., CVPR 2016): the 2048 pooled features that VSE++ and HAL train on."""

from pipeline.extract.engine.params import ImageParams
from pipeline.project.traits import BackboneTraits


class Params(ImageParams):
    """``weights: imagenet`` is IMAGENET1K_V2 (resnet152-f82ba261.pth); IMAGENET1K_V1 is what VSE++'s time had."""


TRAITS = BackboneTraits(trainable=True)
