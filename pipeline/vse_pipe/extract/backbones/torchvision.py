"""Any classifier of torchvision: ``backbone: torchvision`` with ``model: mobilenet_v2``."""

from vse_pipe.extract import networks, published
from vse_pipe.extract.backbone import Backbone
from vse_pipe.extract.backbones.options import TorchvisionOptions as Params


def build(params: Params, seed: int) -> Backbone:
    """The input of the network's last layer; sizes, mean and std by default those its weights were published with.

    Raises UnknownMember for another name; else as ``assemble``.
    """
    classifier = published.torchvision_classifier(params.model, params, params.model_args)
    return networks.assemble(classifier, params, seed)
