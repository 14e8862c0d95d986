"""embed: a trained run in, its embeddings of its own data set or of another one out."""

from dataclasses import replace
from pathlib import Path

from vse_pipe.artifacts import captions, features, images, model_files, texts
from vse_pipe.project import paths
from vse_pipe.project.nodes import Declaration
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import IMAGE_ENCODERS, SIMILARITIES, TEXT_ENCODERS, TEXT_FEATURES

_FAMILIES = (SIMILARITIES, TEXT_ENCODERS, IMAGE_ENCODERS)


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


def _of_transfer(params: Params, name: str) -> list[Path]:
    """The other data set with its features, and all that the run was trained with: its vocabulary, how its features were made."""
    node = params.transfers[name]
    prepared = paths.prepared(node.dataset)
    other = [prepared / images.NAME, prepared / captions.NAME]
    return [*other, paths.extracted(node.dataset, str(node.features)) / features.META, *_inputs(params, node.run)[2:]]


RUNS = Declaration(
    group="embed",
    module="vse_pipe.embed.stage",
    option="--run",
    names=lambda params: params.runs,
    out=lambda params, name: paths.embedded(name),
    inputs=_inputs,
    members=lambda params, name: {
        SIMILARITIES: params.runs[name].similarity.name,
        TEXT_ENCODERS: params.runs[name].text.name,
        IMAGE_ENCODERS: params.runs[name].image.name,
    },
    finds=_FAMILIES,
)
NODES = (
    RUNS,
    replace(
        RUNS,
        group="embed_transfers",
        module="vse_pipe.embed.transfer",
        names=lambda params: params.transfers,
        inputs=_of_transfer,
        members=lambda params, name: RUNS.members(params, params.trained(name)),
        finds=(*_FAMILIES, TEXT_FEATURES),
    ),
)
