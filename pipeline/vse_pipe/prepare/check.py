"""data/prepare/<dataset>/: its tables, and that they belong together."""

import pyarrow as pa

from vse_pipe.artifacts import captions, images, names, phrases, regions
from vse_pipe.core import tables
from vse_pipe.core.files import sha256
from vse_pipe.project.nodes import Node
from vse_pipe.project.params.typed import Params
from vse_pipe.project.problems import DIGEST, Problem, collected, ids


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
        found += _names(node, tables.footer(pictures).get(names.NAME))
        if (node.out / phrases.NAME).exists():
            spoken, where = phrases.read(node.out), (node.out / phrases.NAME, node.out / captions.NAME)
            said = texts["caption_id"].to_numpy()
            # Where regions are the pictures, captions are phrases, and phrases speak of the data set with the whole ones.
            if (node.out / regions.NAME).exists():
                found += ids(where[1], "caption_id", said, spoken["phrase_id"].to_numpy(), where[0], node.advice)
            else:
                found += ids(where[0], "caption_id", spoken["caption_id"].to_numpy(), said, where[1], node.advice)
        if (node.out / regions.NAME).exists():
            found += _regions(node, pictures["image_id"])
    return found


def _names(node: Node, told: str | None) -> list[Problem]:
    """told: the digest that images.parquet has of it, None where ids are numbers."""
    held = names.read(node.out)
    there = None if held is None else sha256(node.out / names.NAME)
    what = f"its digest is not that which {node.out / images.NAME} has"
    return [] if there == told else [Problem(DIGEST, str(node.out / names.NAME), what, node.advice)]


def _regions(node: Node, pictures: pa.ChunkedArray) -> list[Problem]:
    """Row by row the boxes of images.parquet."""
    same = regions.read(node.out)["image_id"].equals(pictures)
    what = f"its image_ids are not those of {node.out / images.NAME}, row by row"
    return [] if same else [Problem(DIGEST, str(node.out / regions.NAME), what, node.advice)]
