"""data/prepare/<dataset>/: its tables, and that they belong together."""

import pyarrow as pa

from pipeline.artifacts import captions, images, phrases, regions
from pipeline.project.nodes import Node
from pipeline.project.params.typed import Params
from pipeline.project.problems import DIGEST, Problem, collected, ids


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
            # Where regions are the pictures, their captions are phrases of the data set that has the whole pictures.
            key = "phrase_id" if (node.out / regions.NAME).exists() else "caption_id"
            named, known = phrases.read(node.out)[key].to_numpy(), texts["caption_id"].to_numpy()
            found += ids(node.out / phrases.NAME, key, named, known, node.out / captions.NAME, node.advice)
        if (node.out / regions.NAME).exists():
            found += _regions(node, pictures["image_id"])
    return found


def _regions(node: Node, pictures: pa.ChunkedArray) -> list[Problem]:
    """Row by row the boxes of images.parquet."""
    same = regions.read(node.out)["image_id"].equals(pictures)
    what = f"its image_ids are not those of {node.out / images.NAME}, row by row"
    return [] if same else [Problem(DIGEST, str(node.out / regions.NAME), what, node.advice)]
