"""data/extract/<dataset>/<features>/: readable, made from the images that are there now, with these parameters."""

import pyarrow as pa

from vse_pipe.artifacts import features, images, unreadable
from vse_pipe.core import tables
from vse_pipe.core.files import sha256
from vse_pipe.project import paths
from vse_pipe.project.nodes import Node
from vse_pipe.project.params.typed import Params
from vse_pipe.project.problems import ARTEFACT, NOTE, Problem, collected, digest, ids, settings

_IDS = pa.schema([pa.field("image_id", pa.int64(), nullable=False)])


def problems(params: Params, node: Node) -> list[Problem]:
    """The array is opened and not read."""
    found: list[Problem] = []
    held = params.features[node.name]
    with collected(found):
        held_by = features.read(node.out, verify=False)
        meta = held_by.meta
        if len(held_by.failed):
            what = f"{len(held_by.failed)} images could not be read and have no features"
            found.append(Problem(NOTE, str(node.out), what, f"{unreadable.NAME} in it says why"))
        about = {key: meta[key] for key in ("backbone", "dataset") if key in meta}
        made_with = about | meta.get("params", {})
        asked = {"backbone": held.backbone.name, "dataset": held.dataset}
        asked |= held.backbone.params.model_dump(mode="json")
        found += settings(str(node.out), made_with, asked, f"features.{node.name}", node.advice)
        source = paths.prepared(held.dataset) / images.NAME
        if source.is_file():
            found += digest(node.out, "images", meta.get("images_sha256"), sha256(source), node.advice)
            found += _images(node, images.read(source.parent))
    return found


def _images(node: Node, table: pa.Table) -> list[Problem]:
    index = tables.read(node.out / features.INDEX, _IDS, columns=["image_id"])["image_id"].to_numpy()
    known = table["image_id"].to_numpy()
    source = paths.prepared(node.out.parent.name) / images.NAME
    found = ids(node.out / features.INDEX, "image_id", index, known, source, node.advice)
    absent = sorted(set(known.tolist()) - set(index.tolist()))
    if absent:
        what = f"{len(absent)} images of {source} are not in it, the first is image_id {absent[0]}"
        found.append(Problem(ARTEFACT, str(node.out / features.INDEX), what, node.advice))
    return found
