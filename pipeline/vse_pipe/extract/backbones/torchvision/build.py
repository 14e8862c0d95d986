"""A classifier as torchvision builds it."""

from vse_pipe.extract.backbones.torchvision import Params
from vse_pipe.extract.engine.backbone import Backbone
from vse_pipe.extract.engine.networks import classifier, torchvision


def build(params: Params, seed: int) -> Backbone:
    """The input of the network's last layer; sizes, mean and std by default those its weights were published with.

    Raises UnknownMember for another name; else as ``assemble``.
    """
    found = torchvision.classifier(params.model, params, params.model_args)
    return classifier.assemble(found, params, seed)
