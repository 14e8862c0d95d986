"""index: make a folder of pictures searchable, by new entries in params.yaml."""

import re
from pathlib import Path

from pydantic import TypeAdapter

from vse_pipe.artifacts import embeddings, model_files
from vse_pipe.core import tables
from vse_pipe.core.console import say
from vse_pipe.core.errors import UsageError
from vse_pipe.core.files import require
from vse_pipe.embed.stage import embed
from vse_pipe.extract import stage as extraction
from vse_pipe.prepare import stage as preparation
from vse_pipe.project import paths
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.nodes import Name
from vse_pipe.project.params.typed import Params
from vse_pipe.train.trained import NO_NETWORK

FORMAT = "folder"
# Share of pictures that may fail: pictures that the network's transform refuses must not stop the
# search of all others.
_MAX_ERRORS = 0.5


def source_of(folder: Path) -> str:
    """The folder as params.yaml names it: relative to the project's root, which is the working
    directory, or absolute. Raises UsageError if it is no folder, or if the project lies in it."""
    root, source = Path.cwd().resolve(), folder.resolve()
    if not source.is_dir():
        raise UsageError(f"index: {folder} is no folder")
    if root.is_relative_to(source):
        raise UsageError(f"index: the project {root} lies in {folder}; name a folder of pictures, or move the project")
    return source.relative_to(root).as_posix() if source.is_relative_to(root) else str(source)


def dataset_of(params: Params, source: str, name: str | None) -> str:
    """The name of the folder's data set, or a new one. Raises UsageError for a name in use."""
    folders = {key: entry.source for key, entry in params.datasets.items() if entry.format.name == FORMAT}
    target = Path(source).resolve()
    matches = [key for key, place in folders.items() if Path(place).resolve() == target and name in (None, key)]
    if matches:
        return matches[-1]
    # DVC splits addresses of entries at dots.
    if name is not None and ("." in name or not TypeAdapter(Name).validator.isinstance_python(name)):
        raise UsageError(f"index: --name {name!r}: expected letters, digits and _ + -, the first a letter or a digit")
    dataset = name or re.sub(r"[^A-Za-z0-9_+-]+", "-", Path(source).name).strip("-_+") or "pictures"
    if dataset in params.datasets or dataset in params.evaluated() or dataset in params.groups:
        raise UsageError(f"index: params.yaml has '{dataset}' already, which is something else; give --name another")
    return dataset


def collections(params: Params, dataset: str) -> list[str]:
    """Names of the runs and transfers of a data set."""
    return [name for name in (*params.runs, *params.transfers) if params.dataset(name) == dataset]


def is_pair(params: Params, name: str, pair: dict[str, str]) -> bool:
    if name not in params.runs:
        return False
    options = params.features[params.runs[name].features].backbone.params
    return all(getattr(options, key, None) == value for key, value in pair.items())


def pair_entries(source: str, dataset: str, pair: dict[str, str], device: str) -> dict[str, dict]:
    """Entries of params.yaml, by section, for a data set with a pretrained pair and no training.
    pair: options that both sides of ``open_clip`` share."""
    both = {"dataset": dataset}
    run = {"noise": f"{dataset}_pairs", "loss": "infonce", "scheme": "zero_shot", "similarity": "cosine"}
    sides = {"features": f"{dataset}_seen", "texts": f"{dataset}_said", "text": "identity", "image": "identity"}
    return {
        "datasets": {dataset: _folder_dataset(source)},
        "features": {sides["features"]: {**both, "backbone": "open_clip", **pair, "max_errors": _MAX_ERRORS}},
        "texts": {sides["texts"]: {**both, "method": "open_clip", **pair, "device": device}},
        "noises": {run["noise"]: {**both, "protocol": "as_is"}},
        "runs": {dataset: {**both, **sides, **run}},
    }


def _folder_dataset(source: str) -> dict[str, str]:
    return {"format": FORMAT, "source": source, "on_error": "skip"}


def missing_entries(params: Params, source: str, dataset: str, run: str) -> dict[str, dict]:
    """Entries that params.yaml lacks, by section. run: a name in params.yaml. Raises UsageError if
    no network here computes the features of the run, MissingResource if it is not trained."""
    first = params.models(run)[0]
    node = params.runs[first]
    backbone = params.features[node.features].backbone
    if backbone.name in NO_NETWORK:
        raise UsageError(
            f"index: run '{run}' reads features '{node.features}' ({backbone.name}), which were computed elsewhere: no network "
            "here sees a picture; name a run on features of a network"
        )
    require(paths.trained(first) / model_files.MODEL)
    entries: dict[str, dict] = {}
    if dataset not in params.datasets:
        entries["datasets"] = {dataset: _folder_dataset(source)}
    matching = [
        name for name, entry in params.features.items() if (entry.dataset, entry.backbone) == (dataset, backbone)
    ]
    features = matching[0] if matching else f"{node.features}_{dataset}"
    if not matching:
        source_entry = read_document(paths.PARAMS)["features"][node.features]
        removed = ("dataset", "max_errors")
        options = {key: value for key, value in source_entry.items() if key not in removed}
        entries["features"] = {features: {"dataset": dataset, **options, "max_errors": _MAX_ERRORS}}
    if not any((entry.run, entry.dataset) == (first, dataset) for entry in params.transfers.values()):
        free = dataset not in {*params.evaluated(), *params.groups, *params.runs}
        transfer = {"run": run, "dataset": dataset, "features": features}
        entries["transfers"] = {dataset if free else f"{dataset}_{run}": transfer}
    return entries


def index(params: Params, names: list[str], device: str = "auto") -> list[Path]:
    """Compute everything that searches of these runs and transfers read, only new pictures if an
    earlier call did the others.

    Returns the folders. Raises as the stages do; finished artefacts then stay.
    """
    for dataset in dict.fromkeys(map(params.dataset, names)):
        preparation.prepare(params, dataset, device)
    for features in dict.fromkeys((params.transfers.get(name) or params.runs[name]).features for name in names):
        extraction.extract(params, features, device)
    for name in names:
        if name in params.runs:
            # A pretrained pair: nothing is trained on the pictures themselves.
            from vse_pipe.extract.text_stage import extract_texts
            from vse_pipe.inject.stage import inject
            from vse_pipe.train.stage import train

            extract_texts(params, params.runs[name].texts)
            inject(params, params.runs[name].noise)
            train(params, name, device)
        embed(params, name, device)
        with tables.open_parquet(paths.embedded(name) / embeddings.IMAGES) as file:
            count = file.metadata.num_rows
        say(f'index {name}: {count} pictures; `vse-pipe search "..." --run {name}` searches them')
    return [paths.embedded(name) for name in names]
