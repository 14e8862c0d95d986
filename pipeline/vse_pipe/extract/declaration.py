"""extract: image features of a backbone, and the text features that text encoders read."""

from vse_pipe.artifacts import captions
from vse_pipe.project import paths
from vse_pipe.project.registry import BACKBONES, TEXT_FEATURES
from vse_pipe.project.stages import Declaration

STAGES = (
    Declaration(
        group="extract",
        section="features",
        option="--features",
        output=paths.extracted,
        inputs=lambda params, name: [paths.prepared(params.features[name].dataset)],
        families={BACKBONES: "backbone.name"},
        reads=lambda params, name: params.features[name].backbone.params.reads(),
        by_dataset=True,
    ),
    Declaration(
        group="extract_texts",
        section="texts",
        option="--texts",
        output=paths.extracted,
        inputs=lambda params, name: [paths.prepared(params.texts[name].dataset) / captions.NAME],
        families={TEXT_FEATURES: "method.name"},
        reads=lambda params, name: params.texts[name].method.params.reads(),
        by_dataset=True,
        file="text_stage",
    ),
)
