"""embed: a trained run in, its embeddings out."""

from pathlib import Path

from pipeline.artifacts import captions, features, images, model_files, texts
from pipeline.project import paths
from pipeline.project.nodes import Declaration
from pipeline.project.params.typed import Params
from pipeline.project.registry import IMAGE_ENCODERS, SIMILARITIES, TEXT_ENCODERS


def _inputs(params: Params, run: str) -> list[Path]:
    node = params.runs[run]
    prepared = paths.prepared(node.dataset)
    return [
        prepared / images.NAME,
        prepared / captions.NAME,
        paths.trained(run) / model_files.MODEL,
        paths.extracted(node.dataset, node.features) / features.META,
        paths.extracted(node.dataset, node.texts) / texts.META,
    ]


NODES = (
    Declaration(
        group="embed",
        module="pipeline.embed.stage",
        option="--run",
        names=lambda params: params.runs,
        out=lambda params, name: paths.embedded(name),
        inputs=_inputs,
        members=lambda params, name: {
            SIMILARITIES: params.runs[name].similarity.name,
            TEXT_ENCODERS: params.runs[name].text.name,
            IMAGE_ENCODERS: params.runs[name].image.name,
        },
        finds=(SIMILARITIES, TEXT_ENCODERS, IMAGE_ENCODERS),
        repeats=True,
    ),
)
