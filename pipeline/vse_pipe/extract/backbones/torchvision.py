"""Any classifier of torchvision: ``backbone: torchvision`` with ``model: mobilenet_v2``."""

from vse_pipe.extract import networks
from vse_pipe.extract.backbones.options import TorchvisionOptions as Params
from vse_pipe.extract.job import Backbone


def build(params: Params, seed: int) -> Backbone:
    """The input of the network's last layer; default sizes, mean and std are those of the published
    weights.

    Raises UnknownMember for another name; else as ``networks.backbone_of``."""
    return networks.backbone_of(networks.torchvision_classifier(params.model, params, params.model_args), params, seed)
