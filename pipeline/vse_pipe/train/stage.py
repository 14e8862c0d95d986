"""The stage train: reads pairs and features; writes the model of the best epoch, its vocabulary and
learning curve."""

import contextlib
import copy
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from vse_pipe.artifacts import features, model_files, pairs, texts
from vse_pipe.core import devices, processes
from vse_pipe.core.console import say, titled, warn
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.core.files import write_json
from vse_pipe.core.locks import claim
from vse_pipe.core.seeds import generator
from vse_pipe.project import paths
from vse_pipe.project.params.schema import NO_WEIGHT
from vse_pipe.project.params.typed import Params, Run
from vse_pipe.project.registry import SAMPLERS, SCHEMES
from vse_pipe.train import inputs, loop, optimise
from vse_pipe.train import processes as engine_processes
from vse_pipe.train.checkpoint import Checkpoint, Progress, fingerprint_of
from vse_pipe.train.data import TrainTable
from vse_pipe.train.model import DualEncoder, build, described
from vse_pipe.train.scheme import Setting

if TYPE_CHECKING:
    from vse_pipe.train.pictures import PixelNetwork


def train(
    params: Params,
    run: str,
    device: str | torch.device = "auto",
    out: Path | None = None,
    locked: bool = False,
) -> Path:
    """Train a run and write data/train/<run>/, or ``out``; returns the folder. An earlier model
    stays until the new one is complete.

    Scheme ``zero_shot`` writes the encoders untrained. A killed training goes on after its last
    epoch when called again with the same inputs. With ``train.processes`` it starts these processes
    and waits for them; under ``torchrun`` it is one of them. locked: the process that has started
    this one holds the lock.
    """
    # The moments of words that no longer occur decay towards 0, and Adam is ten times slower on
    # denormal numbers. Threads copy the setting when they start.
    torch.set_flush_denormal(True)
    out = out or paths.trained(run)
    rank_device = engine_processes.joined(resolve_device(str(device)))
    is_locked = locked or not processes.is_first()
    with titled(f"train {run}"), contextlib.nullcontext() if is_locked else claim(out):
        _train(params, run, out, rank_device)
    return out


def _train(params: Params, name: str, out: Path, device: torch.device) -> None:
    """Returns without a training where the model is up to date, or where processes that were
    started here have trained it."""
    started, node = time.monotonic(), params.runs[name]
    folders, trains = inputs.feature_folders(node), SCHEMES.traits(node.scheme.name).trains
    pairs_folder = [paths.injected(node.dataset, node.noise)] if trains else []
    identities = inputs.identities([*folders, *pairs_folder])
    stored = features.read(folders[0])
    network = inputs.network(params, node, stored)
    backbone = None if network is None else network.described
    read = identities | (inputs.further_inputs(node) if trains else {})
    checkpoint = Checkpoint(out, fingerprint_of(name, node, read, device, backbone))
    if processes.first_answer(checkpoint.is_finished()):
        say(f"{out} is up to date")
        return
    if trains and node.train.processes > 1 and not processes.has_group():
        work = partial(train, params, name, out=out, locked=True)
        engine_processes.run(work, node.train.processes, device)
        return
    treated = texts.read(folders[1])
    if trains:
        progress, config = _trained(node, network, stored, treated, checkpoint, device)
    else:
        progress, config = SCHEMES.load(node.scheme.name).untrained(node, stored, treated)
        checkpoint.begin()
    if not processes.is_first():
        return
    _write(checkpoint.building, treated.words, progress, config | {"run": name})
    checkpoint.finish(identities)
    paths.record_seconds(out, time.monotonic() - started)
    if not config["ended"]["converged"]:
        say(f"not converged: {model_files.unconverged(config)}")


def _write(folder: Path, words: list[str], progress: Progress, config: dict) -> None:
    """The files of the model. words: its vocabulary."""
    model_files.write_history(folder, progress.history)
    if progress.records:
        write_json(folder / pairs.REMATCHING, progress.records)
    weights, *peer = progress.best
    model_files.write(folder, weights, words, config, *peer)


def _trained(
    node: Run,
    network: "PixelNetwork | None",
    stored: features.Features,
    treated: texts.Texts,
    checkpoint: Checkpoint,
    device: torch.device,
) -> tuple[Progress, dict]:
    """The state after the training, and config.json."""
    if device.type == "cpu":
        devices.keep_freed()
    if node.train.precision == "tf32" and device.type != "cuda":
        raise UsageError(f"precision tf32 is of NVIDIA GPUs, and the device is {device}; take float32")
    table = inputs.table(node, stored, treated, network.described if network else None, device)
    sampler, build_anew = _sampler(node, table), _builder(node, stored, treated, network)
    setting = Setting(node, build_anew(node.seed).to(device), table.train_pairs, device, build_anew)
    scheme = SCHEMES.load(node.scheme.name).scheme(setting)
    _check_batches(node, table, sampler(0), setting.model)
    # After all checks, because it removes the state of a run with other inputs.
    checkpoint.begin()
    if any(table.left_out):
        warn(
            f"{table.left_out[0]} training pairs and {table.left_out[1]} validation captions are left "
            "out, with images that could not be read"
        )
    say(f"{len(table.train_pairs)} pairs")
    progress = loop.fit(scheme, table, sampler, checkpoint)
    choice = "last" if scheme.keeps_last else "best"
    say(f"{choice} epoch {progress.best_epoch}, validation rsum {progress.best_rsum:.1f}")
    config = _config(node, stored, treated, progress) | {"ended": loop.ending(scheme, progress)}
    return progress, config | ({"backbone": network.described} if network else {})


def _sampler(node: Run, table: TrainTable) -> Callable[[int], list[np.ndarray]]:
    """A function from epoch to its batches, which follow from (seed, epoch)."""
    batches = SAMPLERS.load(node.sampler.name).batches
    train_pairs, size = table.train_pairs, node.train.batch_size
    texts = None if train_pairs.incidence is None else train_pairs.incidence.texts

    def epoch(number: int) -> list[np.ndarray]:
        rng = generator(node.seed, "order", number)
        return batches(train_pairs.owners, size, node.sampler.params, rng, texts)

    return epoch


def _check_batches(node: Run, table: TrainTable, batches: list[np.ndarray], model: DualEncoder) -> None:
    """Raises InputError without a batch, because a single pair has no negative, and UsageError for
    layers that cannot encode a batch in chunks."""
    if not batches:
        count, images = len(table.train_pairs), len(np.unique(table.train_pairs.owners))
        raise InputError(
            f"{count} training pairs of {images} images give the sampler '{node.sampler.name}' no "
            "batch of at least 2 pairs; add images and captions to the split train"
        )
    longest = max(map(len, batches)) * SCHEMES.traits(node.scheme.name).parts
    if 0 < node.train.chunk < longest:
        optimise.require_independent_rows(model.train())


def _builder(
    node: Run, stored: features.Features, treated: texts.Texts, network: "PixelNetwork | None"
) -> Callable[[int], DualEncoder]:
    """A function from seed to a model with fresh weights, on the CPU; words start from their
    vectors, if any."""
    words = inputs.word_vectors(node.text, treated)
    sizes = stored.array.shape[1:], treated.inputs, node.train.embed_size

    def fresh(seed: int) -> DualEncoder:
        # A copy, so that two models of a run do not train the same backbone.
        backbone = None if network is None else copy.deepcopy(network.module)
        model = build(node.image, node.text, node.similarity, *sizes, seed, backbone, node.loss)
        if words is not None:
            model.txt.start_from(*words)
        begin_at = getattr(model.loss, "begin_at", None)
        if begin_at is not None and network is not None and "logit" in network.described:
            begin_at(**network.described["logit"])
        return model

    return fresh


def _config(node: Run, stored: features.Features, treated: texts.Texts, progress: Progress) -> dict:
    config = described(node, stored, treated, node.train.embed_size)
    config |= {"train": node.train.model_dump(mode="json", exclude=NO_WEIGHT), "seed": node.seed}
    config |= {"best": {"epoch": progress.best_epoch, "val_rsum": progress.best_rsum}}
    learned = {
        key.removeprefix("loss."): value.tolist() for key, value in progress.best[0].items() if key.startswith("loss.")
    }
    config["loss"] |= {"learned": learned} if learned else {}
    return config
