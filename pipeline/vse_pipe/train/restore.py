"""Load trained models, and runs that copy the model of a folder instead of training."""

import json
import shutil
from pathlib import Path

from vse_pipe.artifacts import identity, model_files
from vse_pipe.core.console import say
from vse_pipe.core.errors import IntegrityError, UsageError, damaged
from vse_pipe.core.files import require, sha256, whole_folder, write_json
from vse_pipe.project import paths
from vse_pipe.project.params.typed import GivenModel, Member, Run
from vse_pipe.project.registry import (
    IMAGE_ENCODERS,
    RUN_FAMILIES,
    SIMILARITIES,
    TEXT_ENCODERS,
    Family,
)
from vse_pipe.train.model import DualEncoder, build, describe, network_holder

# Names of this project's inputs; they may mean other things in the project that trained the model.
_NAMES = ("dataset", "features", "texts", "noise")


def take(model: GivenModel, run: Run, name: str, out: Path) -> None:
    """Copy weights, vocabulary and learning curve to ``out``, and write config.json with the names
    of this run.

    Raises InputError for a missing file, IntegrityError for a file with another digest, for a model
    that this version cannot load and where the present features or texts are not those of the
    model, UsageError where params.yaml describes another model. ``out`` is then unchanged.
    """
    folder = Path(model.folder)
    path = require(folder / model_files.CONFIG)
    if (digest := sha256(path)) != model.sha256:
        raise IntegrityError(
            f"{path}: sha256 is {digest}, runs.{name}.sha256 says {model.sha256}; fetch the folder again"
        )
    config = model_files.read_config(folder)
    networks = load_all(folder, config.get("run"))
    require_same_members(folder, config, run, name)
    origin = {"sha256": model.sha256, **{key: config.get(key) for key in ("run", *_NAMES)}}
    changed = {key: getattr(run, key) for key in _NAMES} | {"run": name, "origin": origin}
    read = {
        str(paths.extracted(run.dataset, getattr(run, part))): {part: config[f"{part}_sha256"]}
        for part in ("features", "texts")
    }
    with paths.claimed_seeds(out), whole_folder(out) as building:
        for place, _ in zip(("", model_files.PEER), networks, strict=False):
            (building / place).mkdir(exist_ok=True)
            for file in (model_files.MODEL, model_files.VOCABULARY):
                shutil.copyfile(folder / place / file, building / place / file)
            write_json(building / place / model_files.CONFIG, model_files.read_config(folder / place) | changed)
        shutil.copyfile(require(folder / model_files.HISTORY), building / model_files.HISTORY)
        identity.write(building, read, model_files.parts(building))
        identity.require_current(building)
    say(f"nothing was trained, it is the model in {model.folder}")


def require_same_members(folder: Path, config: dict, run: Run, name: str) -> None:
    """Raises UsageError where params.yaml names another member or option than the model in
    ``folder`` has. Reports rely on params.yaml."""
    with damaged(folder / model_files.CONFIG, "names a member that this version lacks"):
        # Options newer than the model have their defaults.
        actual = {key: describe(_member(RUN_FAMILIES[key], config[key])) for key in RUN_FAMILIES}
    actual["train.embed_size"] = config["embed_size"]
    expected = {key: describe(getattr(run, key)) for key in RUN_FAMILIES}
    for key, value in (expected | {"train.embed_size": run.train.embed_size}).items():
        if value != actual[key]:
            raise UsageError(
                f"params.yaml runs.{name}.{key} is {json.dumps(value)}, the model in {folder} has "
                f"{json.dumps(actual[key])}; write what it has"
            )


def _member(family: Family, described: dict) -> Member:
    """The member that ``describe`` turned into JSON."""
    name = described["name"]
    if name not in family.names():
        raise LookupError(f"no {family.kind} '{name}'")
    return Member(name, family.options(name).model_validate(described["params"]))


def load_all(folder: Path, run: str | None = None) -> list[tuple[DualEncoder, model_files.ModelFiles]]:
    """The network in ``folder``, or both networks of a run that ranks by the mean of their scores.
    Raises as ``load``, and IntegrityError for a second network that is not the one that config.json
    names."""
    networks = [load(folder, run)]
    if digest := networks[0][1].config.get("peer_sha256"):
        networks.append(load(folder / model_files.PEER, run))
        if networks[1][1].digest != digest:
            raise IntegrityError(
                f"{folder / model_files.PEER}: holds another network than {model_files.CONFIG} "
                "names; train the run again, or fetch the folder again"
            )
    return networks


def load(folder: Path, run: str | None = None) -> tuple[DualEncoder, model_files.ModelFiles]:
    """The model of data/train/<run>/, on the CPU and in evaluation mode, and its files.

    run: name for messages, by default the folder's name. Raises InputError when a file is missing,
    IntegrityError when a file is damaged or config.json does not fit the weights.
    """
    files = model_files.read(folder, run)
    config = files.config
    with damaged(folder / model_files.CONFIG, f"does not fit {model_files.MODEL} or this version"):
        image = _member(IMAGE_ENCODERS, config["image"])
        text = _member(TEXT_ENCODERS, config["text"])
        similarity = _member(SIMILARITIES, config["similarity"])
        backbone, described = None, config.get("backbone")
        if described and (holder := network_holder(image, text)):
            backbone = holder.restore_network(described, folder, [image.params, text.params])
        shape, words, width = tuple(config["feature_shape"]), config["text_inputs"], config["embed_size"]
        model = build(image, text, similarity, shape, words, width, seed=0, backbone=backbone)
        # Weights of the loss are needed in training only.
        weights = {key: value for key, value in files.weights.items() if not key.startswith("loss.")}
        model.load_state_dict(weights)
        return model.eval(), files
