"""Any model of timm: ``backbone: timm`` with ``model: resnet18.a1_in1k``."""

from vse_pipe.extract import networks
from vse_pipe.extract.backbones.options import TimmOptions as Params
from vse_pipe.extract.job import Backbone


def build(params: Params, seed: int) -> Backbone:
    """timm's pre-logits; default sizes, mean and std are those of the tag.

    ``weights: imagenet`` means the published weights of the tag, for any training data. When the
    file's name has no digest, ``sha256`` must be set. Raises UnknownMember for another name; else
    as ``networks.backbone_of``."""
    return networks.backbone_of(networks.timm_classifier(params.model, params, params.model_args), params, seed)
