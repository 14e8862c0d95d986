"""data/extract/<dataset>/<features>/: made from the images that are there now."""

from vse_pipe.artifacts import features, images
from vse_pipe.project import paths
from vse_pipe.project.nodes import Node
from vse_pipe.project.params.typed import Params
from vse_pipe.project.problems import Problem, collected, digest


def problems(params: Params, node: Node) -> list[Problem]:
    found: list[Problem] = []
    with collected(found):
        meta = features.read(node.out, verify=False).meta
        source = paths.prepared(params.features[node.name].dataset) / images.NAME
        found += digest(node.out, "images", meta.get("images_sha256"), source, node.advice)
    return found
