"""Any classifier of torchvision: ``backbone: torchvision`` with ``model: mobilenet_v2``."""

from pydantic import Field

from pipeline.extract.engine.params import ImageParams
from pipeline.project.traits import BackboneTraits


class Params(ImageParams):
    """model: a name of ``torchvision.models``; model_args: passed to its constructor, for weights of other shapes."""

    model: str
    model_args: dict[str, object] = Field(default_factory=dict)


TRAITS = BackboneTraits(trainable=True)
