"""localize: the embeddings of phrases and regions in, the box of each phrase out."""

from pathlib import Path

from vse_pipe.artifacts import captions, embeddings, images, phrases, regions
from vse_pipe.project import paths
from vse_pipe.project.nodes import Declaration
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import SIMILARITIES


def _inputs(params: Params, run: str) -> list[Path]:
    prepared, embedded = paths.prepared(params.runs[run].dataset), paths.embedded(run)
    return [
        embedded / embeddings.IMAGES,
        embedded / embeddings.CAPTIONS,
        *(prepared / file.NAME for file in (images, captions, phrases, regions)),
    ]


NODES = (
    Declaration(
        group="localize",
        module="vse_pipe.localize.stage",
        option="--run",
        names=lambda params: params.report.localized,
        out=lambda params, name: paths.localized(name),
        inputs=_inputs,
        finds=(SIMILARITIES,),
    ),
)
