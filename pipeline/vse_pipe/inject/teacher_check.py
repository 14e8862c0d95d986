"""data/inject/<dataset>/<teacher>/: pairs and models against what they were taken from."""

from vse_pipe.artifacts import pairs, teachers
from vse_pipe.core.files import require, sha256
from vse_pipe.project import paths
from vse_pipe.project.nodes import Node
from vse_pipe.project.params.typed import Params
from vse_pipe.project.problems import Problem, collected, digest


def problems(params: Params, node: Node) -> list[Problem]:
    found: list[Problem] = []
    with collected(found):
        held = params.teachers[node.name]
        source = paths.injected(held.dataset, held.noise) / pairs.NAME
        copied = sha256(require(node.out / pairs.NAME, node.command))
        found += digest(node.out, "pairs", copied, source, node.advice)
        for teacher in teachers.read(node.out):
            with collected(found):
                teachers.require_same(node.out, teacher)
    return found
