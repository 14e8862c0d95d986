"""Any model of timm: ``backbone: timm`` with ``model: resnet18.a1_in1k``."""

from pydantic import Field

from vse_pipe.extract.engine.params import ImageParams
from vse_pipe.project.traits import BackboneTraits


class Params(ImageParams):
    model: str
    """an architecture or ``architecture.tag``"""
    model_args: dict[str, object] = Field(default_factory=dict)
    """passed to timm.create_model, as in {pad_type: same}"""


TRAITS = BackboneTraits(trainable=True)
