"""Inception-ResNet-v2 (Szegedy et al., AAAI 2017): the 1536 pooled features of HAL's COCO experiments."""

from dataclasses import replace

from pipeline.extract.engine.backbone import Backbone
from pipeline.extract.engine.params import ImageParams
from pipeline.extract.engine.weights import WeightsFile

_NAME = "inception_resnet_v2.tf_in1k"
_WEIGHTS = WeightsFile(
    url="https://huggingface.co/timm/inception_resnet_v2.tf_in1k/resolve/main/model.safetensors",
    file="inception_resnet_v2.tf_in1k-dbea26b1.safetensors",
    digest="dbea26b13a5fc8351919fed6a94222c0577ce324b2765fd081a798f837ca9d72",
)


class Params(ImageParams):
    """Shorter side 333, centre crop 299, bicubic, mean and std 0.5: as timm evaluates these weights."""


def build(params: Params, seed: int) -> Backbone:
    """1536 dimensions after global average pooling. ``weights: imagenet`` is TensorFlow's, converted (timm tf_in1k)."""
    from pipeline.extract.engine.networks import classifier, timm

    found = timm.classifier(_NAME, params, {})
    source = _WEIGHTS if found.source else None
    return classifier.assemble(replace(found, source=source), params, seed)
