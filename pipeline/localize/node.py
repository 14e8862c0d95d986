"""localize: the embeddings of phrases and regions in, the box of each phrase out."""

from pathlib import Path

from pipeline.artifacts import captions, embeddings, images, phrases, regions
from pipeline.project import paths
from pipeline.project.nodes import Declaration
from pipeline.project.params.typed import Params
from pipeline.project.registry import SIMILARITIES


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
        module="pipeline.localize.stage",
        option="--run",
        names=lambda params: params.report.localized,
        out=lambda params, name: paths.localized(name),
        inputs=_inputs,
        finds=(SIMILARITIES,),
        repeats=True,
    ),
)
