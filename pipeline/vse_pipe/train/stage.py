"""The stage train: reads pairs and features; writes the model of the best epoch, its vocabulary and learning curve."""

import contextlib
import copy
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from vse_pipe.artifacts import features, identity, model_files, pairs
from vse_pipe.core import devices, processes
from vse_pipe.core.console import say, warn
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.core.files import partial as partial_folder
from vse_pipe.core.files import require_ours
from vse_pipe.core.locks import claim
from vse_pipe.core.seeds import generator
from vse_pipe.project import paths
from vse_pipe.project.params.schema import NO_WEIGHT
from vse_pipe.project.params.typed import Params, Run
from vse_pipe.project.registry import LOSSES, SAMPLERS, SCHEMES
from vse_pipe.train import checkpoint, inputs, loop, optimise, restore, wise
from vse_pipe.train import processes as engine_processes
from vse_pipe.train.data import PixelNetwork, TrainTable
from vse_pipe.train.inputs import Teacher
from vse_pipe.train.model import DualEncoder, build, describe, described, objective
from vse_pipe.train.scheme import Scheme, Setting

FILES = (*model_files.FILES, f"{model_files.PEER}/*", model_files.HISTORY, pairs.REMATCHING, "last/*")


def flush_denormals() -> None:
    """Treat denormal numbers as 0. Call it before other work of torch, because threads copy the setting when they start.

    The moments of words that no longer occur decay towards 0, and Adam is ten times slower on denormal numbers.
    """
    torch.set_flush_denormal(True)


def train(
    params: Params, run: str, device: str | torch.device = "auto", out: Path | None = None, locked: bool = False
) -> Path:
    """Train a run and write data/train/<run>/, or ``out``; returns the folder. An earlier model stays until the new one is
    complete.

    A run with ``model`` copies that model; scheme ``zero_shot`` writes the encoders untrained. A killed training resumes from its
    last epoch when called again with the same inputs. With ``train.processes`` it starts these processes and waits for them;
    under ``torchrun`` it is one of them. locked: the process that has started this one holds the lock.
    """
    node = params.runs[run]
    out = out or paths.trained(run)
    joined_device = engine_processes.joined(resolve_device(str(device)))
    with claim(out) if processes.is_first() and not locked else contextlib.nullcontext():
        if node.model is None and SCHEMES.traits(node.scheme.name).trains:
            if (ready := _ready(params, run, out, joined_device)) is not None:
                progress = loop.fit(
                    ready.scheme, ready.sampler, ready.check, ready.building, ready.mark, run, ready.watch
                )
                shares = wise.interpolate(node, ready.scheme, ready.check, progress, run)
                if processes.is_first():
                    _finish(params, run, out, ready, progress, shares)
        elif processes.is_first() and node.model is not None:
            restore.take(node.model, node, run, out, FILES)
        elif processes.is_first():
            SCHEMES.load(node.scheme.name).untrained(node, run, out, FILES, joined_device)
    return out


@dataclass(frozen=True)
class _Ready:
    """A training before its first epoch. goes_on: it resumes; identities: as of
    ``inputs.identities`` before anything was read."""

    started: float
    stored: features.Features
    network: PixelNetwork | None
    identities: identity.Inputs
    table: TrainTable
    scheme: Scheme
    sampler: Callable[[int], list[np.ndarray]]
    check: loop.Validate
    watch: loop.Watch
    mark: str
    building: Path
    goes_on: bool


def _ready(params: Params, name: str, out: Path, device: torch.device) -> _Ready | None:
    """None if the model is up to date, or if processes that were started here have trained it."""
    started, node, seed = time.monotonic(), params.runs[name], params.runs[name].seed
    if device.type == "cpu":
        devices.keep_freed()
    if node.train.precision == "tf32" and device.type != "cuda":
        raise UsageError(f"train {name}: precision tf32 is of NVIDIA GPUs, and the device is {device}; take float32")
    identities = inputs.identities(inputs.folders(node))
    stored = features.read(paths.extracted(node.dataset, node.features))
    # Random weights of the network behind the features follow from the project's seed; all else from the run's seed.
    network = inputs.network(node, params.features[node.features], stored, params.seed, device)
    read = inputs.input_files(node)
    depends = None if network is None else network.depends
    done = False
    if processes.is_first() and all(path.is_file() for path in read):  # a missing file is reported where it is read
        done = _is_finished(node, name, out, checkpoint.run_fingerprint(node, seed, read, device, depends))
    if processes.first_answer(done):
        say(f"train {name}: {out} is up to date")
        return None
    if node.train.processes > 1 and not processes.has_group():
        work = partial(train, params, name, out=out, locked=True)
        engine_processes.run(work, (), node.train.processes, device, f"train {name}")
        return None
    table = inputs.table(node, stored, network, seed, device)
    _require_trust(node, table, name)
    if node.train.keep_on_device and table.train_pairs.pictures is None:
        table = replace(table, train_pairs=table.train_pairs.kept_on(device))
    mark = checkpoint.run_fingerprint(node, seed, read, device, depends)
    sampler = _sampler(node, table, seed)
    longest = _longest(node, table, sampler(0), name) * SCHEMES.traits(node.scheme.name).parts
    fresh = _builder(node, table, network, name)
    model = fresh(seed).to(device)
    if 0 < node.train.chunk < longest:
        _check_chunks(model, node.train.epochs, f"runs.{name}.train.chunk")
    setting = _setting(node, name, table, model, fresh, stored, device)
    scheme = SCHEMES.load(node.scheme.name).scheme(setting, node.scheme.params)
    check, watch = loop.validator(table, node.train.val_images, device), _watch(name, node, table)
    building, goes_on = _start(out, mark)  # after all checks, because it removes another run
    _say_left_out(name, table)
    say(f"train {name}: {len(table.train_pairs)} pairs, {table.described}")
    data = stored, network, identities, table
    return _Ready(started, *data, scheme, sampler, check, watch, mark, building, goes_on)


def _require_trust(node: Run, table: TrainTable, name: str) -> None:
    """Raises InputError where pairs have weights between 0 and 1 that the run would not heed."""
    takes = "targets" in LOSSES.traits(node.loss.name).takes
    if table.train_pairs.trust is None or (takes and SCHEMES.traits(node.scheme.name).weighs):
        return
    losses = [loss for loss in LOSSES.names() if "targets" in LOSSES.traits(loss).takes]
    schemes = [scheme for scheme in SCHEMES.names() if SCHEMES.traits(scheme).weighs]
    raise InputError(
        f"train {name}: {int((table.train_pairs.trust < 1).sum())} pairs of noise '{node.noise}' have a weight between 0 and 1, which loss '{node.loss.name}' under scheme '{node.scheme.name}' does not take; take scheme {' or '.join(schemes)} and a loss of {', '.join(losses)}, or decide keep or drop in place of weight"
    )


def _finish(
    params: Params, name: str, out: Path, ready: _Ready, progress: checkpoint.Progress, shares: dict | None
) -> None:
    """Write the model in the place of an earlier one. shares: result of ``wise.interpolate``."""
    node, building = params.runs[name], ready.building
    stuck = ready.watch.end(progress.history[-1], node.train.batch_size)
    ended = loop.ending(ready.scheme, progress) | ({"stuck": stuck, "converged": False} if stuck else {})
    config = _config(params, name, ready.table, ready.stored, progress)
    config |= {"ended": ended, "run": name}
    config |= {"processes": progress.processes} if progress.processes > 1 else {}
    config |= {"backbone": ready.network.described} if ready.network else {}
    config |= {"wise": shares} if shares else {}
    model_files.write(building, progress.best, ready.table.texts.words, config, progress.best_peer)
    identity.write(building, ready.identities, model_files.parts(building))
    checkpoint.record(building, ready.mark, node.train.keep_state)
    paths.replace_model_folder(building, out, FILES, f"train {name}")
    if not node.train.keep_state:  # last, because a call that is killed before resumes from it
        checkpoint.drop_state(out)
    paths.record_seconds(out, time.monotonic() - ready.started, earlier=ready.goes_on)
    choice = "last" if ready.scheme.keeps_last else "best"
    say(f"train {name}: {choice} epoch {progress.best_epoch}, validation rsum {progress.best_rsum:.1f}")
    _say_how_it_ended(name, ended)


def _is_finished(node: Run, name: str, out: Path, mark: str) -> bool:
    """Whether ``out`` has the finished run; drops a state from a call that was killed after its last step."""
    keep_state = node.train.keep_state
    finished = checkpoint.is_finished(out, mark, keep_state) and model_files.read_config(out).get("run", name) == name
    if finished and not keep_state:
        checkpoint.drop_state(out)
    return finished


def _setting(
    node: Run,
    name: str,
    table: TrainTable,
    model: DualEncoder,
    fresh: Callable[[int], DualEncoder],
    stored: features.Features,
    device: torch.device,
) -> Setting:
    taught = SCHEMES.traits(node.scheme.name).teacher
    return Setting(
        model,
        objective(node.loss, model),
        table.train_pairs,
        node.train,
        node.seed,
        device,
        fresh,
        partial(objective, node.loss, model),
        inputs.boxes(node, stored, table, name),
        node.loss.params,
        Teacher.read(paths.injected(node.dataset, node.noise), table.train_pairs) if taught else None,
    )


def _builder(node: Run, table: TrainTable, network: PixelNetwork | None, name: str) -> Callable[[int], DualEncoder]:
    """A function from seed to a model with fresh weights, on the CPU; words start from their vectors, if any."""
    start = inputs.start_vectors(node.text, table.texts, name)
    members = node.image, node.text, node.similarity
    sizes = table.feature_shape, table.texts.inputs, node.train.embed_size

    def fresh(seed: int) -> DualEncoder:
        # A copy, so that two models of a run do not train the same backbone.
        model = build(*members, *sizes, seed, None if network is None else copy.deepcopy(network.module), node.loss)
        if start is not None:
            start.fill(model.txt.embed)
        begin_at = getattr(model.loss, "begin_at", None)
        if begin_at is not None and network is not None and "logit" in network.described:
            begin_at(**network.described["logit"])
        return model

    return fresh


def _say_left_out(name: str, table: TrainTable) -> None:
    if any(table.left_out):
        pairs_, words = table.left_out
        warn(
            f"train {name}: {pairs_} training pairs and {words} validation captions are left out, with images that could not be read"
        )


def _sampler(node: Run, table: TrainTable, seed: int) -> Callable[[int], list[np.ndarray]]:
    """A function from epoch to its batches, which follow from (seed, epoch)."""
    batches = SAMPLERS.load(node.sampler.name).batches
    owners, lengths = table.train_pairs.owners, table.train_pairs.lengths
    incidence = table.train_pairs.incidence
    texts = None if incidence is None else incidence.texts

    def epoch(number: int) -> list[np.ndarray]:
        rng = generator(seed, "order", number)
        return batches(owners, lengths, node.train.batch_size, node.sampler.params, rng, texts)

    return epoch


def _longest(node: Run, table: TrainTable, batches: list[np.ndarray], name: str) -> int:
    """Number of pairs of the longest batch. Raises InputError without a batch: a single pair has no negative."""
    if not batches:
        count, images = len(table.train_pairs), len(np.unique(table.train_pairs.owners))
        raise InputError(
            f"train {name}: {count} training pairs of {images} images give the sampler '{node.sampler.name}' no batch of at "
            "least 2 pairs; add images and captions to the split train"
        )
    return max(map(len, batches))


def _check_chunks(model: DualEncoder, epochs: int, address: str) -> None:
    """Raises UsageError for layers that normalise over the batch, also where they do so in the last epoch only."""
    trained = [(weight, weight.requires_grad) for weight in model.parameters()]
    model.start(epochs - 1)
    optimise.require_independent_rows(model.train(), address)
    for weight, requires_grad in trained:
        weight.requires_grad_(requires_grad)


def _start(out: Path, mark: str) -> tuple[Path, bool]:
    """The folder to train in, next to ``out``, and whether it has a state of the same inputs to resume from.

    A state in ``out``, from a run that lacks its last files, is copied. Only the first process changes files.
    """
    require_ours(out, paths.output_patterns(FILES))
    building = partial_folder(out)
    if processes.is_first() and checkpoint.fingerprint(building) != mark:
        shutil.rmtree(building, ignore_errors=True)
        if checkpoint.fingerprint(out) == mark:
            (building / checkpoint.STATE).parent.mkdir(parents=True)
            shutil.copyfile(out / checkpoint.STATE, building / checkpoint.STATE)
    processes.wait()
    return building, (building / checkpoint.STATE).is_file()


def _config(
    params: Params, name: str, table: TrainTable, stored: features.Features, progress: checkpoint.Progress
) -> dict:
    node = params.runs[name]
    sizes = table.feature_shape, table.texts.inputs, node.train.embed_size
    config = described(node, *sizes, stored.meta, table.texts)
    config["inputs"]["pairs"] = describe(params.pairs(node.noise).protocol)
    config |= {"train": node.train.model_dump(mode="json", exclude=NO_WEIGHT), "seed": node.seed}
    learned = {key[5:]: value.tolist() for key, value in progress.best.items() if key.startswith("loss.")}
    config["loss"] |= {"learned": learned} if learned else {}
    return {**config, "best": {"epoch": progress.best_epoch, "val_rsum": progress.best_rsum}}


def _say_how_it_ended(name: str, ended: dict) -> None:
    if ended["by"] == "patience":
        say(f"train {name}: ended after epoch {ended['epoch']}: rsum has not risen for train.patience epochs")
    if not ended["converged"] and "stuck" not in ended:  # of which the user was warned
        say(f"train {name}: not converged: {model_files.unconverged({'ended': ended})}")


def _watch(name: str, node: Run, table: TrainTable) -> loop.Watch:
    loss, stuck = node.loss, None
    if LOSSES.traits(loss.name).stuck:
        stuck = partial(LOSSES.load(loss.name).stuck, params=loss.params)
    return loop.Watch(name, loss.name, loop.chance(table, node.train.val_images), stuck, node.train.stop_when_dead)
