"""No training: the model is the run's untrained encoders, for the two sides of a pretrained pair
(zero-shot)."""

import time
from pathlib import Path

import torch

from vse_pipe.artifacts import features, model_files, texts
from vse_pipe.artifacts.features import Features
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core.console import say
from vse_pipe.core.errors import InputError
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Run
from vse_pipe.train import inputs
from vse_pipe.train.checkpoint import Checkpoint, fingerprint_of
from vse_pipe.train.model import build, described


def untrained(node: Run, name: str, out: Path, device: torch.device) -> None:
    """Write a model without weights to ``out``: vocabulary, config.json and a learning curve
    without epochs.

    Vectors are as wide as features. config.json has scale and bias of the logits of a pretrained
    pair, as ``logit``. Raises InputError for features and texts of two different pairs, or of
    different widths.
    """
    started = time.monotonic()
    folders = inputs.feature_folders(node)
    read_from = inputs.identities(folders)
    stored = features.read(folders[0])
    checkpoint = Checkpoint(out, fingerprint_of(name, node, read_from, device))
    if checkpoint.is_finished():
        say(f"{out} is up to date")
        return
    read = texts.read(folders[1])
    _require_a_pair(stored, read)
    shape = stored.array.shape[1:]
    model = build(node.image, node.text, node.similarity, shape, read.inputs, shape[-1], node.seed)
    config = {
        **described(node, shape, read.inputs, shape[-1], stored.meta, read),
        "best": {"epoch": 0, "val_rsum": None},
        "ended": {"by": "scheme", "epoch": 0, "converged": True},
        "run": name,
        "logit": stored.meta.get("logit"),
    }
    checkpoint.begin()
    model_files.write_history(checkpoint.building, [])
    model_files.write(checkpoint.building, model.state_dict(), read.words, config)
    checkpoint.finish(read_from)
    paths.record_seconds(out, time.monotonic() - started)
    say(f"nothing is trained; images and captions are compared in {shape[-1]} dimensions as they are")


def _require_a_pair(stored: Features, read: Texts) -> None:
    """Raises InputError unless both sides are of one pretrained pair; vectors of other origin
    are not checked."""
    if "network" in read.meta and _network(read.meta) != _network(stored.meta):
        raise InputError(
            "features and texts are of two models or of two weights; give both the same model, weights and sha256"
        )


def _network(meta: dict) -> tuple:
    weights = meta.get("weights") or {}
    return meta.get("network"), weights.get("sha256"), weights.get("seed")
