"""data/embed/<run>/: both files of one model, made from the weights, images and captions that are there now."""

import json
from pathlib import Path

from vse_pipe.artifacts import embeddings, images, joins, model_files
from vse_pipe.core import parquet
from vse_pipe.core.files import require
from vse_pipe.project import paths
from vse_pipe.project.nodes import Node
from vse_pipe.project.params.typed import Params
from vse_pipe.project.problems import ARTEFACT, Problem, collected, digest

_OF_THE_FILE = {"artefact", "version", "ARROW:schema"}


def problems(params: Params, node: Node) -> list[Problem]:
    found: list[Problem] = []
    with collected(found):
        about, captions = (_footer(node.out / name, node) for name in (embeddings.IMAGES, embeddings.CAPTIONS))
        for key in sorted({*about, *captions} - _OF_THE_FILE):
            if about.get(key) != captions.get(key):
                what = f"images.parquet and captions.parquet name different values of {key}"
                found.append(Problem(ARTEFACT, str(node.out), what, node.advice))
        if about.get("run") != node.name:
            what = f"embeddings of run {about.get('run')!r}, expected {node.name!r}"
            found.append(Problem(ARTEFACT, str(node.out), what, node.advice))
        transfer, made_for = params.transfers.get(node.name), json.loads(about.get(embeddings.TRANSFER, "null"))
        if transfer and not transfer.tells(made_for):
            what = f"embeddings of {made_for}, not what params.yaml transfers.{node.name} says"
            found.append(Problem(ARTEFACT, str(node.out), what, node.advice))
        run = params.trained(node.name)
        weights = model_files.digest_of(paths.trained(run), run)
        found += digest(node.out, "weights", about.get("model_sha256"), weights, node.advice)
        prepared = paths.prepared(params.dataset(node.name))
        joins.require(prepared, embeddings.origin(node.out, about, images.SPLITS, node.advice))
    return found


def _footer(path: Path, node: Node) -> dict[str, str]:
    with parquet.opened(require(path, node.command)) as file:
        return {key.decode(): value.decode() for key, value in (file.schema.metadata or {}).items()}
