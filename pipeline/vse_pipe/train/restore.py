"""Load trained models, and runs that copy the model of a folder from `vse-pipe pack` instead of training."""

import hashlib
import json
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from vse_pipe.artifacts import features, identity, model_files, texts
from vse_pipe.core.console import say
from vse_pipe.core.errors import IntegrityError, UnknownMember, UsageError
from vse_pipe.core.files import inside, partial, require, require_ours, sha256, write_json
from vse_pipe.project import paths
from vse_pipe.project.params.typed import GivenModel, Member, Run
from vse_pipe.project.registry import IMAGE_ENCODERS, RUN_FAMILIES, SIMILARITIES, TEXT_ENCODERS, Family
from vse_pipe.train import checkpoint
from vse_pipe.train.model import DualEncoder, build, describe, network_holder
from vse_pipe.train.model import restore as restored

# Names of this project's inputs; they may mean other things in the project that trained the model.
_NAMES = ("dataset", "features", "texts", "noise")
_COPIED = (model_files.MODEL, model_files.VOCABULARY)


def mark(model: GivenModel, run: Run, name: str) -> str:
    """Fingerprint of a run that is a copy."""
    parts = {
        "model": model.sha256,
        "run": name,
        "names": [getattr(run, key) for key in _NAMES],
        "asked": _expected(run),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def take(model: GivenModel, run: Run, name: str, out: Path, files: Iterable[str]) -> None:
    """Copy weights, vocabulary and learning curve to ``out``, and write config.json with the names of this run.

    files: patterns of a training's files, as in ``repetitions.patterns``. Raises InputError for a file that is missing or
    outside the model's folder, IntegrityError for a file with another digest or one that this version cannot load,
    UsageError where params.yaml describes another model. ``out`` is then unchanged.
    """
    started, fingerprint = time.monotonic(), mark(model, run, name)
    if checkpoint.is_finished(out, fingerprint):
        say(f"train {name}: {out} is up to date")
        return
    config = _checked(model, run, name)
    require_ours(out, paths.output_patterns(files))
    building = partial(out)
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    _copy(model, config, run, name, building)
    places = [paths.extracted(run.dataset, key) for key in (run.features, run.texts)]
    parts = [{part: config[f"{part}_sha256"]} for part in ("features", "texts")]
    read = dict(zip(map(str, places), parts, strict=True))
    identity.write(building, read, model_files.parts(building))
    checkpoint.record(building, fingerprint)
    paths.replace_model_folder(building, out, files, f"train {name}")
    paths.record_seconds(out, time.monotonic() - started)
    say(f"train {name}: nothing was trained, it is the model in {model.folder}")


def _checked(model: GivenModel, run: Run, name: str) -> dict:
    """config.json of the model, after a check of its files and of params.yaml."""
    folder = Path(model.folder)
    config = _config(folder, model, name)
    for place in ["", f"{model_files.PEER}/"][: 1 + ("peer_sha256" in config)]:
        for file in model_files.FILES:
            _file(folder, f"{place}{file}")
    load_all(folder, config.get("run"))
    require_same_members(folder, config, run, name)
    model_files.read_history(_file(folder, model_files.HISTORY).parent)
    return config


def _copy(model: GivenModel, config: dict, run: Run, name: str, building: Path) -> None:
    folder = Path(model.folder)
    origin = {"sha256": model.sha256, **{key: config.get(key) for key in ("run", *_NAMES)}}
    renamed = {**config, **{key: getattr(run, key) for key in _NAMES}, "run": name, "origin": origin}
    for file in (*_COPIED, model_files.HISTORY):
        shutil.copyfile(_file(folder, file), building / file)
    if peer := renamed.get("peer_sha256"):
        (building / model_files.PEER).mkdir()
        for file in _COPIED:
            shutil.copyfile(_file(folder, f"{model_files.PEER}/{file}"), building / model_files.PEER / file)
        # As in a training: the second network differs in its weights only, and one digest covers it.
        digests = {**config["sha256"], model_files.MODEL: peer}
        second = {key: value for key, value in renamed.items() if key != "peer_sha256"} | {"sha256": digests}
        write_json(building / model_files.PEER / model_files.CONFIG, second)
    write_json(building / model_files.CONFIG, renamed)


def _config(folder: Path, model: GivenModel, name: str) -> dict:
    """config.json, after a check of its digest."""
    path = _file(folder, model_files.CONFIG)
    if (digest := sha256(path)) != model.sha256:
        raise IntegrityError(
            f"{path}: sha256 is {digest}, runs.{name}.sha256 says {model.sha256}; fetch the folder again"
        )
    return model_files.read_config(folder)


def _file(folder: Path, file: str) -> Path:
    return require(inside(folder, file, str(folder)))


def _expected(run: Run) -> dict:
    return {key: describe(getattr(run, key)) for key in RUN_FAMILIES} | {"train.embed_size": run.train.embed_size}


def require_same_members(folder: Path, config: dict, run: Run, name: str) -> None:
    """Raises UsageError where params.yaml names another member or option than the model in ``folder`` has. Reports rely on
    params.yaml."""
    actual = {key: _described(folder, family, config.get(key)) for key, family in RUN_FAMILIES.items()}
    actual["train.embed_size"] = config["embed_size"]
    for key, value in _expected(run).items():
        if value != actual[key]:
            raise UsageError(
                f"params.yaml runs.{name}.{key} is {json.dumps(value)}, the model in {folder} has {json.dumps(actual[key])}; write what it has"
            )


def _described(folder: Path, family: Family, described: object) -> dict:
    """A member of the model with all options of this version; options newer than the model have their defaults."""
    try:
        member: Member = restored(family, described)  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError, UnknownMember) as error:
        reason = " ".join(str(error).split())
        raise IntegrityError(
            f"{folder / model_files.CONFIG}: names no {family.kind} of this version ({reason})"
        ) from error
    return describe(member)


def load_all(folder: Path, run: str | None = None) -> list[tuple[DualEncoder, model_files.ModelFiles]]:
    """The network in ``folder``, or both networks of a run that ranks by the mean of their scores. Raises as ``load``, and
    IntegrityError for a second network that is not the one that config.json names."""
    networks = [load(folder, run)]
    if digest := networks[0][1].config.get("peer_sha256"):
        networks.append(load(folder / model_files.PEER, run))
        if networks[1][1].digest != digest:
            raise IntegrityError(
                f"{folder / model_files.PEER}: holds another network than {model_files.CONFIG} names; train the run "
                "again, or fetch the folder again"
            )
    return networks


def load(folder: Path, run: str | None = None) -> tuple[DualEncoder, model_files.ModelFiles]:
    """The model of data/train/<run>/, on the CPU and in evaluation mode, and its files.

    run: name for messages, by default the folder's name. Raises InputError when a file is missing, IntegrityError when a file
    is damaged or config.json does not fit the weights.
    """
    files = model_files.read(folder, run)
    try:
        return _model(files, folder).eval(), files
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, UnknownMember) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise IntegrityError(
            f"{folder / model_files.CONFIG}: does not fit {model_files.MODEL} or this version; train the run again ({reason})"
        ) from error


def inputs(node: Run, run: str, files: model_files.ModelFiles) -> tuple[features.Features, texts.Texts]:
    """The features and texts of the run.

    Raises IntegrityError unless the run was trained on them and they belong to the present images and captions.
    """
    places = [paths.extracted(node.dataset, name) for name in (node.features, node.texts)]
    for place in places:
        identity.require_current(place)
    try:
        identity.require_current(paths.trained(run), places=places)
    except IntegrityError as error:
        if "origin" not in files.config:
            raise
        advice = "a model from elsewhere needs the data set and the options that its README.md names"
        raise IntegrityError(f"{str(error).partition(';')[0]}; {advice}") from error
    return features.read(places[0]), texts.read(places[1])


def _model(files: model_files.ModelFiles, folder: Path) -> DualEncoder:
    config = files.config
    members = {
        "image": restored(IMAGE_ENCODERS, config["image"]),
        "text": restored(TEXT_ENCODERS, config["text"]),
        "similarity": restored(SIMILARITIES, config["similarity"]),
    }
    described, sides = config.get("backbone"), (members["image"], members["text"])
    holder = network_holder(*sides) if described else None
    model = build(
        **members,
        backbone=None if holder is None else holder.restore_network(described, folder, [side.params for side in sides]),
        feature_shape=tuple(config["feature_shape"]),
        text_inputs=config["text_inputs"],
        embed_size=config["embed_size"],
        seed=0,
    )
    # Weights of the loss are needed in training only.
    model.load_state_dict({key: value for key, value in files.weights.items() if not key.startswith("loss.")})
    return model
