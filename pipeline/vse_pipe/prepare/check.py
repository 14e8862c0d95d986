"""data/prepare/<dataset>/: readable, and names.parquet is the file that images.parquet names."""

from vse_pipe.artifacts import captions, images, names
from vse_pipe.project.nodes import Node
from vse_pipe.project.params.typed import Params
from vse_pipe.project.problems import Problem, collected


def problems(params: Params, node: Node) -> list[Problem]:
    found: list[Problem] = []
    with collected(found):
        images.read(node.out)
        captions.read(node.out)
        names.read(node.out)
    return found
