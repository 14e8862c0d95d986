"""train: pairs and features in; the model of the best validation epoch, its vocabulary and learning curve out."""

import shutil
import time
from functools import partial
from pathlib import Path

import torch

from pipeline import paths, timing
from pipeline.artifacts import captions, features, model_files, pairs
from pipeline.console import say, warn
from pipeline.device import resolve
from pipeline.locks import claim
from pipeline.params.typed import Params, Run
from pipeline.registry import LOSSES
from pipeline.train import checkpoint, fingerprint, loop, validate
from pipeline.train.model import build, describe
from pipeline.train.table import Table


def train(params: Params, run: str, device: str = "auto") -> Path:
    """Write data/train/<run>/. A killed call goes on from its last epoch when called again with the same inputs."""
    node = params.runs[run]
    out = paths.trained(run)
    with claim(out):
        _train(node, run, params.seed, out, resolve(device))
    return out


def _train(node: Run, name: str, seed: int, out: Path, device: torch.device) -> None:
    started = time.monotonic()
    prepared, injected = paths.prepared(node.dataset), paths.injected(node.dataset, node.noise)
    extracted = paths.extracted(node.dataset, node.features)
    inputs = [
        prepared / captions.NAME,
        injected / pairs.NAME,
        extracted / features.META,
        extracted / features.INDEX,
    ]
    table = Table.join(captions.read(prepared), pairs.read(injected), features.read(extracted), node.train)
    mark = fingerprint.of(node, seed, inputs, device)
    going_on = _start(out, mark)

    model = build(
        node.image,
        node.text,
        node.similarity,
        table.feature_shape,
        len(table.words),
        node.train.embed_size,
        seed,
    ).to(device)
    loss = partial(LOSSES.load(node.loss.name).loss, params=node.loss.params)
    check = validate.validator(table, node.train.val_images, device)
    say(
        f"train {name}: {len(table.train_pairs)} pairs, {len(table.words)} words, {table.cut} captions cut at {node.train.max_words} words"
    )
    progress = loop.fit(model, loss, table.train_pairs, check, node.train, seed, out, mark, name)

    model_files.write(out, progress.best, table.words, _config(node, table, progress))
    timing.record(out, time.monotonic() - started, earlier=going_on)
    say(f"train {name}: best epoch {progress.best_epoch}, validation rsum {progress.best_rsum:.1f}")
    _warn_if_stuck(name, node, progress)


def _start(out: Path, mark: str) -> bool:
    """Clear what a run with other inputs left behind. True when there is a run of these inputs to go on from."""
    going_on = checkpoint.fingerprint(out) == mark
    if out.exists() and not going_on:
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    return going_on


def _config(node: Run, table: Table, progress: checkpoint.Progress) -> dict:
    members = {key: describe(getattr(node, key)) for key in ("loss", "similarity", "text", "image")}
    sizes = {
        "embed_size": node.train.embed_size,
        "feature_shape": list(table.feature_shape),
        "max_words": node.train.max_words,
    }
    sources = {"dataset": node.dataset, "features": node.features, "noise": node.noise}
    best = {"epoch": progress.best_epoch, "val_rsum": progress.best_rsum}
    return {**members, **sizes, **sources, "features_sha256": table.features_digest, "best": best}


def _warn_if_stuck(name: str, node: Run, progress: checkpoint.Progress) -> None:
    """A loss that can end at a point from which it does not move says so in its ``stuck``."""
    stuck = getattr(LOSSES.load(node.loss.name), "stuck", None)
    message = stuck and stuck(progress.history[-1]["loss"], node.train.batch_size, node.loss.params)
    if message:
        warn(f"train {name}: {message}")
