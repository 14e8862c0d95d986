"""Any model of timm: ``backbone: timm`` with ``model: resnet18.a1_in1k``."""

from vse_pipe.extract import networks, published
from vse_pipe.extract.backbone import Backbone
from vse_pipe.extract.backbones.options import TimmOptions as Params


def build(params: Params, seed: int) -> Backbone:
    """timm's pre-logits; sizes, mean and std by default those of the tag.

    ``weights: imagenet`` means the published weights of the tag, whatever they were trained on; where their digest
    is not part of the file's name, ``sha256`` must be set. Raises UnknownMember for another name; else as ``assemble``.
    """
    classifier = published.timm_classifier(params.model, params, params.model_args)
    return networks.assemble(classifier, params, seed)
