"""Any classifier of torchvision: ``backbone: torchvision`` with ``model: mobilenet_v2``."""

from pydantic import Field

from pipeline.extract.engine.backbone import Backbone
from pipeline.extract.engine.params import ImageParams


class Params(ImageParams):
    """model: a name of ``torchvision.models``; model_args: passed to its constructor, for weights of other shapes."""

    model: str
    model_args: dict[str, object] = Field(default_factory=dict)


def build(params: Params, seed: int) -> Backbone:
    """The input of the network's last layer; sizes, mean and std by default those its weights were published with.

    Raises UnknownMember for another name; else as ``assemble``.
    """
    from pipeline.extract.engine.networks import classifier, torchvision

    found = torchvision.classifier(params.model, params, params.model_args)
    return classifier.assemble(found, params, seed)
