"""inject: the pairs of a data set, with mismatches or with teachers."""

from collections.abc import Iterable
from pathlib import Path

from vse_pipe.artifacts import captions, images, joins, pairs
from vse_pipe.core.files import require, sha256
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import PROTOCOLS
from vse_pipe.project.sources import SourceFiles
from vse_pipe.project.stages import Declaration, Node, Problem


def _inputs(params: Params, noise: str) -> list[Path]:
    prepared = paths.prepared(params.noises[noise].dataset)
    return [prepared / images.NAME, prepared / captions.NAME]


def _reads(params: Params, noise: str) -> list[SourceFiles]:
    options = params.noises[noise].protocol.params
    files = [getattr(options, key, None) for key in ("file", "path")]
    return [SourceFiles(Path(file)) for file in files if file]


def _problems(params: Params, node: Node) -> Iterable[Problem]:
    pairs.read(node.out)
    pairs.require_for(node.out, paths.prepared(params.noises[node.name].dataset))
    return ()


def _teacher_inputs(params: Params, name: str) -> list[Path]:
    teacher = params.teachers[name]
    return [paths.injected(teacher.dataset, teacher.noise), *map(paths.embedded, params.models(teacher.run))]


def _teacher_problems(params: Params, node: Node) -> Iterable[Problem]:
    noise, *_ = _teacher_inputs(params, node.name)
    digest = sha256(require(node.out / pairs.NAME, node.command))
    joins.require_file(node.out, {"pairs_sha256": digest}, "pairs", noise)
    for teacher in pairs.read_teacher(node.out):
        pairs.require_same_teacher(node.out, teacher)
    return ()


STAGES = (
    Declaration(
        group="inject",
        section="noises",
        option="--noise",
        output=paths.injected,
        inputs=_inputs,
        problems=_problems,
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
        problems=_teacher_problems,
        by_dataset=True,
        file="teacher",
    ),
)
