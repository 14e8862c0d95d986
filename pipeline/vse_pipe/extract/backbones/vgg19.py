"""VGG-19 (Simonyan and Zisserman, ICLR 2015): the 4096 features of fc7."""

from vse_pipe.extract import networks
from vse_pipe.extract.backbones.options import Vgg19Options as Params
from vse_pipe.extract.job import Backbone


def build(params: Params, seed: int) -> Backbone:
    """fc7 after its ReLU, dropout off: 4096 dimensions, none negative.

    Differs from the authors' features: torchvision's weights with RGB mean and std, not Caffe's
    with BGR means. Wang et al. scale to 256x256 without keeping the aspect ratio (``resize_mode:
    exact``, ``resize: 256``)."""
    return networks.backbone_of(networks.torchvision_classifier("vgg19", params, {}), params, seed)
