"""extract: image features by a backbone, and what the text encoders read of captions."""

from pathlib import Path

from vse_pipe.artifacts import captions, images, texts
from vse_pipe.project import paths
from vse_pipe.project.nodes import Declaration
from vse_pipe.project.registry import BACKBONES, TEXT_FEATURES


def _of_captions(out: Path) -> bool:
    """Text features have a vocabulary, be it empty, image features have none."""
    return (out / texts.VOCABULARY).exists()


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
        depth=2,
        holds=lambda out: not _of_captions(out),
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
        depth=2,
        holds=_of_captions,
    ),
)
