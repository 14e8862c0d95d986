"""extract: image features by a backbone, and what the text encoders read of captions."""

from vse_pipe.artifacts import captions, images
from vse_pipe.project import paths
from vse_pipe.project.nodes import Declaration
from vse_pipe.project.registry import BACKBONES, TEXT_FEATURES

NODES = (
    Declaration(
        group="extract",
        module="vse_pipe.extract.stage",
        option="--features",
        names=lambda params: params.features,
        out=lambda params, name: paths.extracted(params.features[name].dataset, name),
        inputs=lambda params, name: [paths.prepared(params.features[name].dataset) / images.NAME],
        reads=lambda params, name: params.features[name].backbone.params.reads(),
        members=lambda params, name: {BACKBONES: params.features[name].backbone.name},
        finds=(BACKBONES,),
    ),
    Declaration(
        group="extract_texts",
        module="vse_pipe.extract.text_stage",
        option="--texts",
        names=lambda params: params.texts,
        out=lambda params, name: paths.extracted(params.texts[name].dataset, name),
        inputs=lambda params, name: [
            paths.prepared(params.texts[name].dataset) / captions.NAME,
            *params.texts[name].method.params.files(),
        ],
        reads=lambda params, name: params.texts[name].method.params.reads(),
        members=lambda params, name: {TEXT_FEATURES: params.texts[name].method.name},
        finds=(TEXT_FEATURES,),
        plan="text_plan",
        check="text_check",
    ),
)
