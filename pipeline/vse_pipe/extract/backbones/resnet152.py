"""ResNet-152 (He et al., CVPR 2016): the 2048 pooled features that VSE++ and HAL train on."""

from dataclasses import replace

from vse_pipe.extract import networks
from vse_pipe.extract.backbones.options import Resnet152Options as Params
from vse_pipe.extract.job import Backbone


def build(params: Params, seed: int) -> Backbone:
    """2048 dimensions; VSE++'s transform (shorter side 256, centre crop 224) where torchvision has
    232 for V2.

    HAL's own features were downloaded. Their extraction is not documented, so these differ from
    them."""
    classifier = networks.torchvision_classifier("resnet152", params, {})
    recipe = replace(classifier.published, image_size=224, resize=256)
    return networks.backbone_of(replace(classifier, published=recipe), params, seed)
