"""inject: the pairs of a data set, with mismatches."""

from pathlib import Path

from pipeline.artifacts import captions, images
from pipeline.project import paths
from pipeline.project.nodes import Declaration
from pipeline.project.params.typed import Params
from pipeline.project.registry import PROTOCOLS


def _inputs(params: Params, noise: str) -> list[Path]:
    node = params.noises[noise]
    prepared, index = paths.prepared(node.dataset), getattr(node.protocol.params, "path", None)
    return [prepared / images.NAME, prepared / captions.NAME, *([Path(index)] if index else [])]


NODES = (
    Declaration(
        group="inject",
        module="pipeline.inject.stage",
        option="--noise",
        names=lambda params: params.noises,
        out=lambda params, name: paths.injected(params.noises[name].dataset, name),
        inputs=_inputs,
        members=lambda params, name: {PROTOCOLS: params.noises[name].protocol.name},
        finds=(PROTOCOLS,),
        depth=2,
    ),
)
