"""data/prepare/<dataset>/: its tables, and that they belong together."""

from pipeline.artifacts import captions, images, phrases
from pipeline.project.nodes import Node
from pipeline.project.params.typed import Params
from pipeline.project.problems import Problem, collected, ids


def problems(params: Params, node: Node) -> list[Problem]:
    found: list[Problem] = []
    with collected(found):
        pictures, texts = images.read(node.out), captions.read(node.out)
        found += ids(
            node.out / captions.NAME,
            "image_id",
            texts["image_id"].to_numpy(),
            pictures["image_id"].to_numpy(),
            node.out / images.NAME,
            node.advice,
        )
        if (node.out / phrases.NAME).exists():
            phrases.read(node.out)
    return found
