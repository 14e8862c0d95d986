"""embed: a trained run in, its embeddings of its own data set or of another one out."""

from dataclasses import replace
from pathlib import Path

from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import IMAGE_ENCODERS, SIMILARITIES, TEXT_ENCODERS, TEXT_FEATURES
from vse_pipe.project.stages import Declaration
from vse_pipe.train.declaration import data


def _transfer_inputs(params: Params, name: str) -> list[Path]:
    """The data set with its features, and the run. The run's folder has the digests of its own
    features and texts."""
    transfer = params.transfers[name]
    features = paths.extracted(transfer.dataset, transfer.features)
    return [paths.prepared(transfer.dataset), features, paths.trained(transfer.run)]


_RUNS = Declaration(
    group="embed",
    section="runs",
    option="--run",
    output=paths.embedded,
    inputs=lambda params, name: [*data(params, name), paths.trained(name)],
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
