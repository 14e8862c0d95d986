"""The declaration of the stage train: inputs, outputs and checks."""

from pathlib import Path

from vse_pipe.artifacts import captions, images
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import RUN_FAMILIES, TEXT_ENCODERS
from vse_pipe.project.sources import SourceFiles
from vse_pipe.project.stages import Declaration


def data(params: Params, name: str) -> list[Path]:
    """The images, captions, features and texts of a run."""
    run = params.runs[name]
    prepared = paths.prepared(run.dataset)
    return [
        # It also covers regions.parquet and phrases.parquet, which only some data sets have: the
        # boxes are in the names of the files, the digest of the phrases is in its footer.
        prepared / images.NAME,
        prepared / captions.NAME,
        paths.extracted(run.dataset, run.features),
        paths.extracted(run.dataset, run.texts),
    ]


def inputs(params: Params, name: str) -> list[Path]:
    """``data`` and the pairs of a run."""
    run = params.runs[name]
    return [*data(params, name), paths.injected(run.dataset, run.noise)]


def _reads(params: Params, name: str) -> list[SourceFiles]:
    """Files of word vectors of the text encoder."""
    run = params.runs[name]
    options = run.text.params
    vectors = (options.vectors,) if TEXT_ENCODERS.traits(run.text.name).vectors else ()
    return [SourceFiles(Path(file).expanduser()) for file in vectors if file]


STAGES = (
    Declaration(
        group="train",
        section="runs",
        option="--run",
        output=paths.trained,
        inputs=inputs,
        families={family: f"{key}.name" for key, family in RUN_FAMILIES.items()},
        reads=_reads,
    ),
)
