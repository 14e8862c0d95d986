"""Inception-ResNet-v2 (Szegedy et al., AAAI 2017): the 1536 pooled features of HAL on COCO."""

from dataclasses import replace

from vse_pipe.core.weights import WeightsFile
from vse_pipe.extract import networks
from vse_pipe.extract.backbones.options import InceptionResnetV2Options as Params
from vse_pipe.extract.job import Backbone

_NAME = "inception_resnet_v2.tf_in1k"


WEIGHTS = WeightsFile(
    url="https://huggingface.co/timm/inception_resnet_v2.tf_in1k/resolve/main/model.safetensors",
    file="inception_resnet_v2.tf_in1k-dbea26b1.safetensors",
    digest="dbea26b13a5fc8351919fed6a94222c0577ce324b2765fd081a798f837ca9d72",
)


def build(params: Params, seed: int) -> Backbone:
    """1536 dimensions after pooling. ``weights: imagenet`` are TensorFlow's (timm tf_in1k)."""
    classifier = networks.timm_classifier(_NAME, params, {})
    return networks.backbone_of(replace(classifier, source=WEIGHTS if classifier.source else None), params, seed)
