"""Any model of timm: ``backbone: timm`` with ``model: resnet18.a1_in1k``."""

from pydantic import Field

from pipeline.extract.engine.backbone import Backbone
from pipeline.extract.engine.params import ImageParams


class Params(ImageParams):
    """model: an architecture or ``architecture.tag``; model_args: passed to timm.create_model, as in {pad_type: same}."""

    model: str
    model_args: dict[str, object] = Field(default_factory=dict)


def build(params: Params, seed: int) -> Backbone:
    """timm's pre-logits; sizes, mean and std by default those of the tag.

    ``weights: imagenet`` means the published weights of the tag, whatever they were trained on; where their digest
    is not part of the file's name, ``sha256`` must be set. Raises UnknownMember for another name; else as ``assemble``.
    """
    from pipeline.extract.engine.networks import classifier, timm

    found = timm.classifier(params.model, params, params.model_args)
    return classifier.assemble(found, params, seed)
