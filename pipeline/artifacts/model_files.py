"""data/train/<run>/: model.safetensors, vocabulary.json and config.json, everything `embed` needs to use the model."""

from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from pipeline.artifacts._files import read_json, require, sha256, whole_file, write_json
from pipeline.errors import IntegrityError

MODEL, VOCABULARY, CONFIG = "model.safetensors", "vocabulary.json", "config.json"


@dataclass(frozen=True)
class ModelFiles:
    """weights: state dict of the dual encoder; words: id = place; config: members, sizes, data set, digests."""

    weights: dict[str, Tensor]
    words: list[str]
    config: dict
    digest: str


def write(folder: Path, weights: dict[str, Tensor], words: list[str], config: dict) -> None:
    with whole_file(folder / MODEL) as temporary:
        save_file({name: tensor.contiguous() for name, tensor in weights.items()}, temporary)
    write_json(folder / VOCABULARY, {"words": words})
    digests = {name: sha256(folder / name) for name in (MODEL, VOCABULARY)}
    write_json(folder / CONFIG, {**config, "sha256": digests})


def read(folder: Path) -> ModelFiles:
    """Raises InputError when a file is missing, IntegrityError when one is not what config.json promises."""
    made_by = f"vse-pipe train --run {folder.name}"
    require(folder / MODEL, made_by)
    config = read_json(require(folder / CONFIG, made_by))
    for name, digest in config["sha256"].items():
        if sha256(require(folder / name, made_by)) != digest:
            raise IntegrityError(
                f"{folder / name}: content does not match the digest in {CONFIG}; train the run again"
            )
    try:
        weights = load_file(folder / MODEL)
    except SafetensorError as error:
        raise IntegrityError(f"{folder / MODEL}: damaged ({error}); train the run again") from error
    return ModelFiles(weights, read_json(folder / VOCABULARY)["words"], config, config["sha256"][MODEL])
