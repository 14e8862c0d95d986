"""data/inject/<dataset>/<noise>/: made from the images and captions that are there now."""

from vse_pipe.artifacts import captions, images, pairs
from vse_pipe.core import tables
from vse_pipe.project import paths
from vse_pipe.project.nodes import Node
from vse_pipe.project.params.typed import Params
from vse_pipe.project.problems import Problem, collected, digest


def problems(params: Params, node: Node) -> list[Problem]:
    found: list[Problem] = []
    with collected(found):
        made_with = tables.footer(pairs.read(node.out))
        prepared = paths.prepared(params.noises[node.name].dataset)
        for source in (prepared / images.NAME, prepared / captions.NAME):
            made_from = made_with.get(f"{source.stem}_sha256")
            found += digest(node.out / pairs.NAME, source.stem, made_from, source, node.advice)
    return found
