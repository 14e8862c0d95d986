"""prepare: from the raw files of a data set to its images and captions."""

from pathlib import Path

from vse_pipe.core import files
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import FORMATS, PROPOSALS
from vse_pipe.project.sources import SourceFiles
from vse_pipe.project.stages import Declaration


def _reads(params: Params, name: str) -> list[SourceFiles]:
    dataset = params.datasets[name]
    options = dataset.format.params
    decided = [SourceFiles(Path(dataset.decisions))] if dataset.decisions else []
    if not FORMATS.traits(dataset.format.name).proposes:
        return [*options.reads(files.place(dataset.source)), *decided]
    # The source of regions is the output of another stage, which dvc.yaml names.
    return [*PROPOSALS.options(options.proposals).model_validate(options.options).reads(), *decided]


STAGES = (
    Declaration(
        group="prepare",
        section="datasets",
        option="--dataset",
        output=paths.prepared,
        inputs=lambda params, name: [Path(params.datasets[name].source)],
        families={FORMATS: "format.name", PROPOSALS: "format.params.proposals"},
        reads=_reads,
    ),
)
