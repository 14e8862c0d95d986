"""data/train/<run>/history.csv: a row an epoch, for learning curves.

Columns ``epoch``, ``lr``, ``loss``, ``val_rsum`` and its recalls, of the average if a run averages
its weights.

data/train/<run>/: model.safetensors, vocabulary.json and config.json.

The second network of a run lies in peer/; ``peer_sha256`` in config.json is its digest. A run with
seeds has a folder for each, data/train/max/1/, and so in data/embed/, data/evaluate/ and
data/audit/. config.json has

- ``loss``, ``scheme``, ``similarity``, ``text``, ``image``, ``sampler``: ``name`` and ``params``;
  ``learned`` values of the loss;
- ``embed_size``, ``feature_shape``, ``text_inputs``: sizes; ``run``, ``dataset``, ``features``,
  ``texts``, ``noise``: names in params.yaml;
- ``sha256``: of the files beside it; ``features_sha256``, ``texts_sha256``: of the training data;
- ``train``: options, without ``processes``; ``seed``;
- ``best``: ``epoch`` and ``val_rsum``; ``ended``: ``epoch``, ``by`` (``epochs`` or ``patience``),
  ``converged``, ``stuck`` (why the run does not move);
- ``backbone``: the network of a model that reads pixels, or of a pretrained pair that trains.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vse_pipe.artifacts.identity import digest_of, made_anew
from vse_pipe.core.errors import IntegrityError, damaged
from vse_pipe.core.files import read_json, require, require_digests, save_tensors, sha256, write_csv, write_json
from vse_pipe.project import paths

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor


HISTORY = "history.csv"
HISTORY_COLUMNS = ["epoch", "lr", "loss", "val_rsum", *[f"val_{d}_r{k}" for d in ("i2t", "t2i") for k in (1, 5, 10)]]


def write_history(folder: Path, rows: list[dict]) -> None:
    import pandas as pd

    write_csv(folder / HISTORY, pd.DataFrame(rows, columns=HISTORY_COLUMNS))


def read_history(folder: Path) -> "pd.DataFrame":
    """Raises InputError when it is missing or no CSV file."""
    from vse_pipe.core.tables import read_csv

    return read_csv(folder / HISTORY)


MODEL, VOCABULARY, CONFIG, PEER = "model.safetensors", "vocabulary.json", "config.json", "peer"
# Folder of a packed model with the weights that it is built on.
WEIGHTS = "weights"
FILES = (MODEL, VOCABULARY, CONFIG)


@dataclass(frozen=True)
class ModelFiles:
    """weights: state dict; words: id = place; config: members, sizes, data set."""

    weights: "dict[str, Tensor]"
    words: list[str]
    config: dict
    digest: str


def write(
    folder: Path, weights: "dict[str, Tensor]", words: list[str], config: dict, peer: "dict[str, Tensor] | None" = None
) -> None:
    """peer: the second network, written first: a run without MODEL is not finished."""
    if peer:
        write(folder / PEER, peer, words, config)
        config = {**config, "peer_sha256": sha256(folder / PEER / MODEL)}
    save_tensors(folder / MODEL, {name: tensor.contiguous() for name, tensor in weights.items()})
    write_json(folder / VOCABULARY, {"words": words})
    write_json(folder / CONFIG, {**config, "sha256": {name: sha256(folder / name) for name in (MODEL, VOCABULARY)}})


def read_config(folder: Path) -> dict:
    """config.json, with ``sha256``: digests by file. Raises InputError when it is missing,
    IntegrityError without digests."""
    config = read_json(require(folder / CONFIG))
    if not isinstance(config.get("sha256"), dict):
        raise IntegrityError(f"{folder / CONFIG}: holds no digests; train the run again")
    return config


def unconverged(config: dict) -> str | None:
    """Why the training of config.json has not converged, at chance or by its last epochs; None
    for one that has, and for a model that does not say."""
    ended = config.get("ended") or {"converged": True}
    if ended["converged"] or ended.get("stuck"):
        return ended.get("stuck")
    if ended["epoch"] == 1:
        return "one epoch does not tell"
    return f"rsum on val was still rising when train.epochs ({ended['epoch']}) ended; raise it"


def parts(folder: Path) -> dict[str, str]:
    """The digest of the weights, for ``identity.write``."""
    return {"weights": digest_of(folder, (MODEL, f"{PEER}/{MODEL}"))}


def read(folder: Path, run: str | None = None) -> ModelFiles:
    """run: whose model it must be, the folder's name when left out. Raises InputError when a file
    is missing, IntegrityError when one is not what config.json promises, or the whole is a copy of
    another run's."""
    from safetensors.torch import load_file

    require(folder / MODEL)
    config = read_config(folder)
    digests, expected = config["sha256"], run or paths.run_of_folder(folder)
    if config.get("run", expected) != expected:
        raise IntegrityError(
            f"{folder}: the model of run '{config['run']}', expected '{expected}'; {made_anew(folder)}"
        )
    require_digests(folder, CONFIG, digests, (MODEL, VOCABULARY))
    with damaged(folder / MODEL, "no whole model"):
        words = read_json(folder / VOCABULARY)["words"]
        return ModelFiles(load_file(folder / MODEL), words, config, digests[MODEL])
