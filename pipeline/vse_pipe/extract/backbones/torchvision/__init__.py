"""Any classifier of torchvision: ``backbone: torchvision`` with ``model: mobilenet_v2``."""

from pydantic import Field

from vse_pipe.extract.engine.params import ImageParams
from vse_pipe.project.traits import BackboneTraits


class Params(ImageParams):
    model: str
    """a name of ``torchvision.models``"""
    model_args: dict[str, object] = Field(default_factory=dict)
    """passed to its constructor, for weights of other shapes"""


TRAITS = BackboneTraits(trainable=True)
