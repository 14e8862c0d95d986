"""ResNet-152 (He et al., CVPR 2016): the 2048 pooled features that VSE++ and HAL train on."""

from vse_pipe.extract.engine.params import ImageParams
from vse_pipe.project.traits import BackboneTraits


class Params(ImageParams):
    """``weights: imagenet`` is torchvision's IMAGENET1K_V2 (resnet152-f82ba261.pth), trained by a later recipe than the papers'
    networks; IMAGENET1K_V1 (resnet152-394f9c45.pth) is what VSE++ and HAL had, and what their rows name."""


TRAITS = BackboneTraits(trainable=True)
