"""embed: a trained run in, its embeddings of its own data set or of another one out."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from vse_pipe.artifacts import embeddings, images, joins
from vse_pipe.core import tables
from vse_pipe.core.files import require
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import IMAGE_ENCODERS, SIMILARITIES, TEXT_ENCODERS, TEXT_FEATURES
from vse_pipe.project.stages import Declaration, Node, Problem
from vse_pipe.train.declaration import data

# Footer entries of the file format.
_FORMAT_KEYS = {"artefact", "version", "ARROW:schema"}


def _transfer_inputs(params: Params, name: str) -> list[Path]:
    """The data set with its features, and the run. The run's folder has the digests of its own features and texts."""
    transfer = params.transfers[name]
    features = paths.extracted(transfer.dataset, str(transfer.features))
    return [paths.prepared(transfer.dataset), features, paths.trained(transfer.run)]


def _problems(params: Params, node: Node) -> Iterator[Problem]:
    footer, captions_footer = (_footer(node.out / name, node) for name in (embeddings.IMAGES, embeddings.CAPTIONS))
    for key in sorted({*footer, *captions_footer} - _FORMAT_KEYS):
        if footer.get(key) != captions_footer.get(key):
            yield node.problem(f"images.parquet and captions.parquet name different values of {key}")
    if footer.get("run") != node.name:
        yield node.problem(f"embeddings of run {footer.get('run')!r}, expected {node.name!r}")
    transfer, recorded = params.transfers.get(node.name), json.loads(footer.get(embeddings.TRANSFER, "null"))
    if transfer and not transfer.tells(recorded):
        yield node.problem(f"embeddings of {recorded}, not what params.yaml transfers.{node.name} says")
    run = params.trained(node.name)
    joins.require_model(node.out, footer.get("model_sha256"), paths.trained(run))
    joins.require(paths.prepared(params.dataset(node.name)), embeddings.origin(node.out, footer, images.SPLITS))


def _footer(path: Path, node: Node) -> dict[str, str]:
    with tables.open_parquet(require(path, node.command)) as file:
        return {key.decode(): value.decode() for key, value in (file.schema.metadata or {}).items()}


_RUNS = Declaration(
    group="embed",
    section="runs",
    option="--run",
    output=paths.embedded,
    inputs=lambda params, name: [*data(params, name), paths.trained(name)],
    problems=_problems,
    families={SIMILARITIES: "similarity.name", TEXT_ENCODERS: "text.name", IMAGE_ENCODERS: "image.name"},
)
_TRANSFERS = replace(
    _RUNS,
    group="embed_transfers",
    section="transfers",
    inputs=_transfer_inputs,
    families={**_RUNS.families, TEXT_FEATURES: ""},
)
STAGES = (_RUNS, _TRANSFERS)
