"""What params.yaml needs for a folder of pictures to be searched by a run: a data set, its features, a transfer."""

import re
from pathlib import Path

from pydantic import TypeAdapter

from vse_pipe.artifacts import embeddings, model_files
from vse_pipe.core import parquet
from vse_pipe.core.console import say
from vse_pipe.core.errors import UsageError
from vse_pipe.core.files import require
from vse_pipe.embed import stage as embedding
from vse_pipe.embed import transfer
from vse_pipe.extract import stage as extraction
from vse_pipe.prepare import stage as preparation
from vse_pipe.project import paths
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.schema import Name
from vse_pipe.project.params.typed import Params
from vse_pipe.tools.search.encoders import NO_NETWORK

FORMAT = "folder"
# Of the features: a picture that only the network's transform refuses is no reason to leave all others unsearched.
_MAX_ERRORS = 0.5


def source_of(folder: Path) -> str:
    """As params.yaml names it, below the working directory, which is the project's root, or absolute. Raises UsageError for what is
    no folder, and for one that the project lies in."""
    root, found = Path.cwd().resolve(), folder.resolve()
    if not found.is_dir():
        raise UsageError(f"index: {folder} is no folder")
    if root.is_relative_to(found):
        raise UsageError(f"index: the project {root} lies in {folder}; name a folder of pictures, or move the project")
    return found.relative_to(root).as_posix() if found.is_relative_to(root) else str(found)


def dataset_of(params: Params, source: str, name: str | None) -> str:
    """The data set of that folder, or a name for it. Raises UsageError where the name is another's."""
    folder = Path(source).resolve()
    folders = {key: Path(one.source).resolve() for key, one in params.datasets.items() if one.format.name == FORMAT}
    there = [key for key, one in folders.items() if one == folder and name in (None, key)]
    if there:
        return there[-1]
    # A dot parts keys where DVC looks for an entry.
    if name is not None and ("." in name or not TypeAdapter(Name).validator.isinstance_python(name)):
        raise UsageError(f"index: --name {name!r}: expected letters, digits and _ + -, the first a letter or a digit")
    made = name or re.sub(r"[^A-Za-z0-9_+-]+", "-", Path(source).name).strip("-_+") or "pictures"
    if made in params.datasets or made in params.evaluated() or made in params.groups:
        raise UsageError(f"index: params.yaml has '{made}' already, which is something else; give --name another")
    return made


def collections(params: Params, dataset: str) -> list[str]:
    """What is embedded of a data set, by the names that searches know."""
    return [name for name in (*params.runs, *params.transfers) if params.dataset(name) == dataset]


def is_pair(params: Params, name: str, pair: dict[str, str]) -> bool:
    """Is it a run of this pretrained pair?"""
    if name not in params.runs:
        return False
    options = params.features[params.runs[name].features].backbone.params
    return all(getattr(options, key, None) == value for key, value in pair.items())


def of_pair(source: str, dataset: str, pair: dict[str, str], device: str) -> dict[str, dict]:
    """The entries of a data set whose pictures a pretrained pair sees as it is, with nothing trained. pair: the options that both
    sides of ``open_clip`` have."""
    both = {"dataset": dataset}
    run = {"noise": f"{dataset}_pairs", "loss": "infonce", "scheme": "none", "similarity": "cosine"}
    sides = {"features": f"{dataset}_seen", "texts": f"{dataset}_said", "text": "identity", "image": "identity"}
    return {
        "datasets": {dataset: _of_folder(source)},
        "features": {sides["features"]: {**both, "backbone": "open_clip", **pair, "max_errors": _MAX_ERRORS}},
        "texts": {sides["texts"]: {**both, "method": "open_clip", **pair, "device": device}},
        "noises": {run["noise"]: {**both, "protocol": "as_is"}},
        "runs": {dataset: {**both, **sides, **run}},
    }


def _of_folder(source: str) -> dict[str, str]:
    return {"format": FORMAT, "source": source, "on_error": "skip"}


def added(params: Params, source: str, dataset: str, run: str) -> dict[str, dict]:
    """The entries that are missing, by section. run: as params.yaml names it. Raises UsageError for a run whose features no
    network here makes, MissingResource for one that is not trained."""
    first = params.models(run)[0]
    node = params.runs[first]
    backbone = params.features[node.features].backbone
    if backbone.name in NO_NETWORK:
        raise UsageError(
            f"index: run '{run}' reads features '{node.features}' ({backbone.name}), which were computed elsewhere: no network "
            "here sees a picture; name a run on features of a network"
        )
    require(paths.trained(first) / model_files.MODEL, f"vse-pipe train --run {run}")
    made: dict[str, dict] = {}
    if dataset not in params.datasets:
        made["datasets"] = {dataset: _of_folder(source)}
    if not any((one.dataset, one.backbone) == (dataset, backbone) for one in params.features.values()):
        own = read_document(paths.PARAMS)["features"][node.features]
        kept = {key: value for key, value in own.items() if key not in ("dataset", "on_error", "max_errors")}
        made["features"] = {f"{node.features}_{dataset}": {"dataset": dataset, **kept, "max_errors": _MAX_ERRORS}}
    if not any((one.run, one.dataset) == (first, dataset) for one in params.transfers.values()):
        free = dataset not in {*params.evaluated(), *params.groups, *params.runs}
        made["transfers"] = {dataset if free else f"{dataset}_{run}": {"run": run, "dataset": dataset}}
    return made


def index(params: Params, names: list[str], device: str = "auto") -> list[Path]:
    """Make, or bring up to date, everything that searches of these runs and transfers read; of what an earlier call has done
    only what is new is computed. Returns the folders. Raises as the stages do; what is finished then stays."""
    for dataset in dict.fromkeys(map(params.dataset, names)):
        preparation.prepare(params, dataset, device)
    for features in dict.fromkeys(_features(params, name) for name in names):
        extraction.extract(params, features, device)
    for name in names:
        if name in params.runs:
            _untrained(params, name, device)
        (transfer if name in params.transfers else embedding).embed(params, name, device)
        count = parquet.rows(paths.embedded(name) / embeddings.IMAGES)
        say(f'index {name}: {count} pictures; `vse-pipe search "..." --run {name}` searches them')
    return [paths.embedded(name) for name in names]


def _untrained(params: Params, name: str, device: str) -> None:
    """The model of a run on the pictures themselves, of which nothing can be trained."""
    from vse_pipe.extract.text_stage import extract_texts
    from vse_pipe.inject.stage import inject
    from vse_pipe.train.stage import train

    node = params.runs[name]
    extract_texts(params, node.texts)
    inject(params, node.noise)
    train(params, name, device)


def _features(params: Params, name: str) -> str:
    found = params.transfers[name].features if name in params.transfers else params.runs[name].features
    assert found is not None  # of params that are complete
    return found
