"""Load trained models."""

from pathlib import Path

from vse_pipe.artifacts import model_files
from vse_pipe.core.errors import IntegrityError, damaged
from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import (
    IMAGE_ENCODERS,
    SIMILARITIES,
    TEXT_ENCODERS,
    Family,
)
from vse_pipe.train.model import DualEncoder, build, network_holder


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
            backbone = holder.restore_network(described)
        shape, words, width = tuple(config["feature_shape"]), config["text_inputs"], config["embed_size"]
        model = build(image, text, similarity, shape, words, width, seed=0, backbone=backbone)
        # Weights of the loss are needed in training only.
        weights = {key: value for key, value in files.weights.items() if not key.startswith("loss.")}
        model.load_state_dict(weights)
        return model.eval(), files
