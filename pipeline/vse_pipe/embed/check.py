"""data/embed/<run>/: both files, one model's, of images and captions that the data set has."""

import json
from pathlib import Path

from vse_pipe.artifacts import captions, embeddings, fragments, images, joins, model_files
from vse_pipe.core.files import require
from vse_pipe.project import paths
from vse_pipe.project.nodes import Node
from vse_pipe.project.params.typed import Params
from vse_pipe.project.problems import ARTEFACT, Problem, collected, digest, ids

_OF_THE_FILE = {"artefact", "version", "ARROW:schema"}


def problems(params: Params, node: Node) -> list[Problem]:
    found: list[Problem] = []
    with collected(found):
        found += _folder(params, node, node.out, "model_sha256")
    return found


def _folder(params: Params, node: Node, folder: Path, key: str) -> list[Problem]:
    found: list[Problem] = []
    sides = [_side(folder / name, node.command) for name in (embeddings.IMAGES, embeddings.CAPTIONS)]
    about = sides[0].about
    for name in sorted({*about, *sides[1].about} - _OF_THE_FILE):
        if about.get(name) != sides[1].about.get(name):
            what = f"images.parquet and captions.parquet name different values of {name}"
            found.append(Problem(ARTEFACT, str(folder), what, node.advice))
    if about.get("run") != node.name:
        what = f"embeddings of run {about.get('run')!r}, expected {node.name!r}"
        found.append(Problem(ARTEFACT, str(folder), what, node.advice))
    if "weights_sha256" in about:
        require(folder / fragments.WEIGHTS, node.command)
    moved, told = params.transfers.get(node.name), json.loads(about.get(embeddings.TRANSFER, "null"))
    if moved and not moved.tells(told):
        what = f"embeddings of {told}, not what params.yaml transfers.{node.name} says"
        found.append(Problem(ARTEFACT, str(folder), what, node.advice))
    run = params.trained(node.name)
    now = model_files.digest_of(paths.trained(run), run)
    found += digest(folder, "weights", about.get(key), now, node.advice)
    prepared = paths.prepared(params.dataset(node.name))
    with collected(found):
        joins.require(prepared, embeddings.origin(folder, about, images.SPLITS, node.advice))
    if prepared.is_dir():
        for side, kind, name, read in [
            (sides[0], "image_id", images.NAME, images.read),
            (sides[1], "caption_id", captions.NAME, captions.read),
        ]:
            known = read(prepared)[kind].to_numpy()
            found += ids(folder / name, kind, side.ids, known, prepared / name, node.advice)
    return found


def _side(path: Path, command: str) -> embeddings.Side | fragments.FragmentSide:
    return fragments.read(path) if fragments.is_fragments(path, command) else embeddings.read(path, command)
