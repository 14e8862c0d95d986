"""A run whose model comes from a folder that `vse-pipe pack` wrote, and not from a training."""

import hashlib
import json
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from vse_pipe.artifacts import features, model_files, texts
from vse_pipe.core.console import say
from vse_pipe.core.errors import IntegrityError, UnknownMember, UsageError
from vse_pipe.core.files import inside, partial, require, require_ours, sha256, write_json
from vse_pipe.core.tables import run_of_folder
from vse_pipe.project import paths
from vse_pipe.project.params.typed import GivenModel, Member, Run
from vse_pipe.project.registry import IMAGE_ENCODERS, RUN_FAMILIES, SIMILARITIES, TEXT_ENCODERS, Family
from vse_pipe.train import checkpoint
from vse_pipe.train.model import DualEncoder, build, describe
from vse_pipe.train.model import restore as restored

# What lies in the project: the names of the one that trained it mean other things here.
_NAMES = ("dataset", "features", "texts", "noise")
_COPIED = (model_files.MODEL, model_files.VOCABULARY)


def mark(model: GivenModel, run: Run, name: str) -> str:
    """What data/train/<run>/ depends on when it is a copy, in place of a training's fingerprint."""
    parts = {"model": model.sha256, "run": name, "names": [getattr(run, key) for key in _NAMES], "asked": _asked(run)}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def take(model: GivenModel, run: Run, name: str, out: Path, files: Iterable[str]) -> None:
    """Weights, vocabulary and learning curve as they are, and config.json under the run's own names, in ``out``.

    files: what a training may have left there, as of ``repetitions.patterns``. Raises InputError for a file of the model that
    is missing or lies outside its folder, IntegrityError for one that is not what the digests say or of which this version
    makes no model, UsageError where params.yaml says another model than it is; ``out`` is then what it was.
    """
    started, known = time.monotonic(), mark(model, run, name)
    if checkpoint.is_finished(out, known):
        say(f"train {name}: {out} is up to date")
        return
    config = _checked(model, run, name)
    require_ours(out, paths.output_patterns(files))
    building = partial(out)
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    _copy(model, config, run, name, building)
    checkpoint.record(building, known)
    paths.replace_model_folder(building, out, files, f"train {name}")
    paths.record_seconds(out, time.monotonic() - started)
    say(f"train {name}: nothing was trained, it is the model in {model.folder}")


def _checked(model: GivenModel, run: Run, name: str) -> dict:
    """config.json of a model that is whole and is what params.yaml says."""
    folder = Path(model.folder)
    config = _config(folder, model, name)
    for beside in ("", *([model_files.PEER] if "peer_sha256" in config else [])):
        _load(folder, config, beside)
    require_same_members(folder, config, run, name)
    model_files.read_history(_file(folder, model_files.HISTORY).parent)
    return config


def _copy(model: GivenModel, config: dict, run: Run, name: str, building: Path) -> None:
    folder = Path(model.folder)
    origin = {"sha256": model.sha256, **{key: config.get(key) for key in ("run", *_NAMES)}}
    own = {**config, **{key: getattr(run, key) for key in _NAMES}, "run": name, "origin": origin}
    for file in (*_COPIED, model_files.HISTORY):
        shutil.copyfile(_file(folder, file), building / file)
    if peer := own.get("peer_sha256"):
        (building / model_files.PEER).mkdir()
        for file in _COPIED:
            shutil.copyfile(_file(folder, f"{model_files.PEER}/{file}"), building / model_files.PEER / file)
        # As a training writes it: of the second network only the weights differ, and all of it is below the one digest.
        digests = {**config["sha256"], model_files.MODEL: peer}
        second = {key: value for key, value in own.items() if key != "peer_sha256"} | {"sha256": digests}
        write_json(building / model_files.PEER / model_files.CONFIG, second)
    write_json(building / model_files.CONFIG, own)


def _config(folder: Path, model: GivenModel, name: str) -> dict:
    """config.json, once its digest was compared."""
    path = _file(folder, model_files.CONFIG)
    if (found := sha256(path)) != model.sha256:
        raise IntegrityError(
            f"{path}: sha256 is {found}, runs.{name}.sha256 says {model.sha256}; fetch the folder again"
        )
    return model_files.read_config(folder)


def _load(folder: Path, config: dict, beside: str) -> None:
    """The model once, so that whatever does not fit is said now. beside: the folder of the second network."""
    for file in model_files.FILES:
        _file(folder, f"{beside}/{file}" if beside else file)
    _, files = load(folder / beside, config.get("run"))
    if beside and files.digest != config["peer_sha256"]:
        raise IntegrityError(
            f"{folder / beside}: holds another network than {model_files.CONFIG} names; fetch it again"
        )


def _file(folder: Path, file: str) -> Path:
    return require(inside(folder, file, str(folder)))


def _asked(run: Run) -> dict:
    return {key: describe(getattr(run, key)) for key in RUN_FAMILIES} | {"train.embed_size": run.train.embed_size}


def require_same_members(folder: Path, config: dict, run: Run, name: str) -> None:
    """params.yaml must say what the model is, because reports believe it. Raises UsageError for a member or option that the model
    in ``folder`` was not made with."""
    made = {key: _made(folder, family, config.get(key)) for key, family in RUN_FAMILIES.items()}
    made["train.embed_size"] = config["embed_size"]
    for key, value in _asked(run).items():
        if value != made[key]:
            raise UsageError(
                f"params.yaml runs.{name}.{key} is {json.dumps(value)}, the model in {folder} has {json.dumps(made[key])}; "
                "write what it has"
            )


def _made(folder: Path, family: Family, described: object) -> dict:
    """A member of the model with all options that this version knows, those that it was trained without at their defaults."""
    try:
        member: Member = restored(family, described)  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError, UnknownMember) as error:
        reason = " ".join(str(error).split())
        raise IntegrityError(
            f"{folder / model_files.CONFIG}: names no {family.kind} of this version ({reason})"
        ) from error
    return describe(member)


def load_all(folder: Path) -> list[tuple[DualEncoder, model_files.ModelFiles]]:
    """The models that data/train/<run>/ evaluates as one, each as ``load`` gives it: one, or two where the scheme trains a
    peer. Raises as ``load`` does, IntegrityError also for a peer that is not the one config.json names."""
    first = load(folder)
    wanted = first[1].config.get("peer_sha256")
    if wanted is None:
        return [first]
    second = load(folder / model_files.PEER, run_of_folder(folder))
    if second[1].digest != wanted:
        raise IntegrityError(
            f"{folder / model_files.PEER}: holds another network than {model_files.CONFIG} names; train the run again"
        )
    return [first, second]


def load(folder: Path, run: str | None = None) -> tuple[DualEncoder, model_files.ModelFiles]:
    """The model of data/train/<run>/, on the CPU and in evaluation mode, and what lies beside its weights.

    run: for messages, the folder's name when left out. Raises InputError when a file is missing, IntegrityError when one
    is damaged or config.json describes another model than the weights are of.
    """
    files = model_files.read(folder, run)
    try:
        return _model(files).eval(), files
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, UnknownMember) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise IntegrityError(
            f"{folder / model_files.CONFIG}: does not fit {model_files.MODEL} or this version; train the run again "
            f"({reason})"
        ) from error


def inputs(node: Run, run: str, files: model_files.ModelFiles) -> tuple[features.Features, texts.Texts]:
    """The features and texts of the run. Raises IntegrityError unless they are what it was trained on, and of the images and
    captions that are there now."""
    words = paths.extracted(node.dataset, node.texts)
    source = features.read(paths.extracted(node.dataset, node.features))
    prepared = paths.prepared(node.dataset)
    features.require_images(source, prepared)
    texts.require_captions(words, prepared)
    read = texts.read(words)
    for what, found in [("features", source.meta["sha256"]), ("texts", read.digest)]:
        wanted = files.config.get(f"{what}_sha256")
        if found != wanted:
            advice = f"run `vse-pipe train --run {run}` again"
            if "origin" in files.config:
                advice = "a model from elsewhere needs the data set and the options that its README.md names"
            raise IntegrityError(
                f"run {run} was trained on other {what} ({str(wanted)[:12]}) than data/extract now holds ({found[:12]}); "
                f"{advice}"
            )
    return source, read


def _model(files: model_files.ModelFiles) -> DualEncoder:
    config = files.config
    members = {
        "image": restored(IMAGE_ENCODERS, config["image"]),
        "text": restored(TEXT_ENCODERS, config["text"]),
        "similarity": restored(SIMILARITIES, config["similarity"]),
    }
    described = config.get("backbone")
    model = build(
        **members,
        backbone=described and IMAGE_ENCODERS.load(members["image"].name).restore_network(described),
        feature_shape=tuple(config["feature_shape"]),
        text_inputs=config["text_inputs"],
        embed_size=config["embed_size"],
        seed=0,
    )
    # What the loss learned has done its work.
    model.load_state_dict({key: value for key, value in files.weights.items() if not key.startswith("loss.")})
    return model
