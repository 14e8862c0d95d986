"""Any model of timm: ``backbone: timm`` with ``model: resnet18.a1_in1k``."""

from pydantic import Field

from pipeline.extract.engine.params import ImageParams
from pipeline.project.traits import BackboneTraits


class Params(ImageParams):
    """model: an architecture or ``architecture.tag``; model_args: passed to timm.create_model, as in {pad_type: same}."""

    model: str
    model_args: dict[str, object] = Field(default_factory=dict)


TRAITS = BackboneTraits(trainable=True)
