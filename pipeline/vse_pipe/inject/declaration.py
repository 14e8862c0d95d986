"""inject: the pairs of a data set, with mismatches or with teachers."""

from pathlib import Path

from vse_pipe.artifacts import captions, images
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import PROTOCOLS
from vse_pipe.project.sources import SourceFiles
from vse_pipe.project.stages import Declaration


def _inputs(params: Params, noise: str) -> list[Path]:
    prepared = paths.prepared(params.noises[noise].dataset)
    return [prepared / images.NAME, prepared / captions.NAME]


def _reads(params: Params, noise: str) -> list[SourceFiles]:
    options = params.noises[noise].protocol.params
    files = [getattr(options, key, None) for key in ("file", "path")]
    return [SourceFiles(Path(file)) for file in files if file]


def _teacher_inputs(params: Params, name: str) -> list[Path]:
    teacher = params.teachers[name]
    return [paths.injected(teacher.dataset, teacher.noise), *map(paths.embedded, params.models(teacher.run))]


STAGES = (
    Declaration(
        group="inject",
        section="noises",
        option="--noise",
        output=paths.injected,
        inputs=_inputs,
        families={PROTOCOLS: "protocol.name"},
        reads=_reads,
        by_dataset=True,
    ),
    Declaration(
        group="inject_teachers",
        section="teachers",
        option="--teacher",
        output=paths.injected,
        inputs=_teacher_inputs,
        by_dataset=True,
    ),
)
