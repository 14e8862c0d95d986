"""data/inject/<dataset>/<teacher>/: pairs and models against what they were taken from."""

from vse_pipe.artifacts import pairs, teachers
from vse_pipe.core.files import sha256
from vse_pipe.project import paths
from vse_pipe.project.nodes import Node
from vse_pipe.project.params.typed import Params
from vse_pipe.project.problems import Problem, collected, digest


def problems(params: Params, node: Node) -> list[Problem]:
    found: list[Problem] = []
    with collected(found):
        pairs.read(node.out)
        held = params.teachers[node.name]
        base = paths.injected(held.dataset, held.noise) / pairs.NAME
        there = sha256(base) if base.is_file() else None
        found += digest(node.out, "pairs", sha256(node.out / pairs.NAME), there, node.advice)
        for one in teachers.read(node.out):
            with collected(found):
                teachers.require_same(node.out, one)
    return found
