"""data/extract/<dataset>/<texts>/: made from the captions that are there now."""

from vse_pipe.artifacts import captions, texts
from vse_pipe.project import paths
from vse_pipe.project.nodes import Node
from vse_pipe.project.params.typed import Params
from vse_pipe.project.problems import Problem, collected, digest


def problems(params: Params, node: Node) -> list[Problem]:
    found: list[Problem] = []
    with collected(found):
        meta = texts.read(node.out, verify=False).meta
        source = paths.prepared(params.texts[node.name].dataset) / captions.NAME
        found += digest(node.out, "captions", meta.get("captions_sha256"), source, node.advice)
    return found
