"""VGG-19 (Simonyan and Zisserman, ICLR 2015): the 4096 features of fc7 that UVS and order embeddings train on."""

from pipeline.extract.engine.backbone import Backbone
from pipeline.extract.engine.params import ImageParams


class Params(ImageParams):
    """Shorter side 256, centre crop 224; ``crops: ten`` is what Kiros et al. and Vendrov et al. report."""


def build(params: Params, seed: int) -> Backbone:
    """fc7 after its ReLU, dropout off: 4096 dimensions, none negative.

    Differs from the authors' features: torchvision's weights with RGB mean and std, not Caffe's with BGR means.
    Wang et al. scale to 256x256 without keeping the aspect ratio (``resize_mode: exact``, ``resize: 256``).
    """
    from pipeline.extract.engine.networks import classifier, torchvision

    return classifier.assemble(torchvision.classifier("vgg19", params, {}), params, seed)
