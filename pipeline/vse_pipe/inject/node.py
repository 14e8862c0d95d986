"""inject: the pairs of a data set, with mismatches, or with models that teach others."""

from pathlib import Path

from vse_pipe.artifacts import captions, embeddings, images, pairs, teachers
from vse_pipe.project import paths
from vse_pipe.project.nodes import Declaration
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import PROTOCOLS
from vse_pipe.project.sources import SourceFiles


def _inputs(params: Params, noise: str) -> list[Path]:
    node = params.noises[noise]
    prepared, index = paths.prepared(node.dataset), getattr(node.protocol.params, "path", None)
    return [prepared / images.NAME, prepared / captions.NAME, *([Path(index)] if index else [])]


def _reads(params: Params, noise: str) -> list[SourceFiles]:
    index = getattr(params.noises[noise].protocol.params, "path", None)
    return [SourceFiles(Path(index))] if index else []


def _of_teacher(params: Params, teacher: str) -> list[Path]:
    node = params.teachers[teacher]
    base = paths.injected(node.dataset, node.noise)
    earlier = [base / teachers.NAME] if node.noise in params.teachers else []
    runs = [paths.embedded(run) / embeddings.IMAGES for run in params.models(node.run)]
    return [base / pairs.NAME, *earlier, *runs]


NODES = (
    Declaration(
        group="inject",
        module="vse_pipe.inject.stage",
        option="--noise",
        names=lambda params: params.noises,
        out=lambda params, name: paths.injected(params.noises[name].dataset, name),
        inputs=_inputs,
        reads=_reads,
        members=lambda params, name: {PROTOCOLS: params.noises[name].protocol.name},
        finds=(PROTOCOLS,),
    ),
    Declaration(
        group="inject_teachers",
        module="vse_pipe.inject.teacher_stage",
        option="--teacher",
        names=lambda params: params.teachers,
        out=lambda params, name: paths.injected(params.teachers[name].dataset, name),
        inputs=_of_teacher,
        plan="teacher_plan",
        check="teacher_check",
    ),
)
