"""A trained run as a model again."""

from pathlib import Path

from vse_pipe.artifacts import features, model_files, texts
from vse_pipe.artifacts.names import run_of_folder
from vse_pipe.core.errors import IntegrityError, UnknownMember
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Run
from vse_pipe.project.registry import IMAGE_ENCODERS, SIMILARITIES, TEXT_ENCODERS
from vse_pipe.train.engine.model import DualEncoder, build, restore


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
        "image": restore(IMAGE_ENCODERS, config["image"]),
        "text": restore(TEXT_ENCODERS, config["text"]),
        "similarity": restore(SIMILARITIES, config["similarity"]),
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
