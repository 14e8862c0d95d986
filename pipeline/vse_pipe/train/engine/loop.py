"""The epochs of one run: train, validate, keep the best, checkpoint."""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vse_pipe.artifacts import model_files, pairs
from vse_pipe.core import mapped, processes
from vse_pipe.core.console import say, track
from vse_pipe.core.devices import derive_seed
from vse_pipe.core.errors import PipelineError, out_of_memory, shortage
from vse_pipe.ranking.metrics.convergence import converged, waited
from vse_pipe.train.engine import checkpoint
from vse_pipe.train.engine.average import Averages
from vse_pipe.train.engine.checkpoint import Progress
from vse_pipe.train.engine.gradient_cache import ADVICE
from vse_pipe.train.engine.model import DualEncoder
from vse_pipe.train.engine.optimise import optimizer_for, step
from vse_pipe.train.engine.schedule import set_rates
from vse_pipe.train.engine.scheme import Scheme
from vse_pipe.train.engine.standstill import StepResult, Watch

Validate = Callable[[Sequence[DualEncoder]], dict[str, float]]


def fit(
    scheme: Scheme,
    sampler: Callable[[int], list[np.ndarray]],
    validate: Validate,
    out: Path,
    fingerprint: str,
    name: str,
    watch: Watch | None = None,
) -> Progress:
    """Train to ``epochs`` of the scheme's setting, or until ``patience`` is over, going on from ``out``'s checkpoint when it belongs to ``fingerprint``.

    sampler: an epoch, counted from 0, to the positions of the pairs of each of its batches. validate: the models of the
    scheme, or the averages of their weights, as one, to validation recalls and ``rsum``; the first best epoch by rsum is kept
    (strict >), of those from the scheme's ``selects_from`` on. watch: looks at each epoch before its state is
    kept; DeadRun, which it raises, leaves the state of the epoch before.
    """
    model, params = scheme.setting.model, scheme.setting.train
    optimizer = optimizer_for(model, params)
    progress = checkpoint.resume(out, model, optimizer, fingerprint)
    processes.require_same_on_all([torch.tensor([progress.epoch])], "epoch to go on after")
    averages = Averages(scheme.models, params.average)
    if progress.epoch:
        scheme.load_state(progress.scheme)
        averages.load_state(progress.average)
        _write(out, progress)
    if 0 < progress.epoch < params.epochs:
        say(f"train {name}: going on after epoch {progress.epoch} of {params.epochs}")
    for epoch in range(progress.epoch, params.epochs):
        if _patience_over(scheme, optimizer, progress):
            break
        set_rates(optimizer, params, scheme.moment(epoch))
        with _enough_memory(epoch, name):
            mean, steps = _epoch(scheme, optimizer, averages, sampler, epoch, name)
            row = {"epoch": epoch + 1, "lr": optimizer.param_groups[0]["lr"], "loss": mean}
            row |= _validated(validate, averages.models, epoch, name)
            if averages:
                row[model_files.UNAVERAGED] = _validated(validate, scheme.models, epoch, name)["val_rsum"]
        if watch is not None:
            watch.after(epoch + 1, steps, row["val_rsum"])
        progress.epoch, progress.processes = epoch + 1, max(progress.processes, processes.rank_count())
        progress.history.append(row)
        progress.scheme, progress.average, record = scheme.state(), averages.state(), scheme.record()
        progress.records += [{"epoch": epoch + 1, **record}] if record else []
        if epoch >= scheme.selects_from and row["val_rsum"] > progress.best_rsum:
            progress.best_rsum, progress.best_epoch = row["val_rsum"], epoch + 1
            progress.best, *peer = map(_copied, averages.models)
            progress.best_peer = peer[0] if peer else {}
        mapped.require_unchanged(scheme.setting.pairs.array)
        processes.require_same_on_all(_held(scheme, progress), "weights")
        if processes.is_first():
            checkpoint.save(out, model, optimizer, progress, fingerprint)
        _write(out, progress)
        say(f"train {name}: epoch {epoch + 1}/{params.epochs}, loss {mean:.4f}, validation rsum {row['val_rsum']:.1f}")
    return progress


def _patience_over(scheme: Scheme, optimizer: torch.optim.Optimizer, progress: Progress) -> bool:
    """Nobody waits in a warm-up, of the scheme or the rate, nor before all layers train and epochs can be the best."""
    params = scheme.setting.train
    if params.patience is None:
        return False
    rates = [rate for group in optimizer.param_groups for rate in (group["rate"], group["later"]) if rate]
    since = max(scheme.decays_from, scheme.selects_from, math.ceil(params.warm_up), *(rate.after for rate in rates))
    return waited(_selectable(scheme, progress), since - scheme.selects_from) >= params.patience


def _selectable(scheme: Scheme, progress: Progress) -> list[float]:
    """rsum of the epochs that can be the best."""
    return [row["val_rsum"] for row in progress.history[scheme.selects_from :]]


def ending(scheme: Scheme, progress: Progress) -> dict:
    """After which epoch the run ended, by its ``epochs`` or by ``patience``, and whether it has converged, for config.json."""
    params, last = scheme.setting.train, progress.epoch
    by = "epochs" if last == params.epochs else "patience"
    settled = scheme.solved or converged(_selectable(scheme, progress), params.patience)
    return {"epoch": last, "by": by, "converged": settled}


def _held(scheme: Scheme, progress: Progress) -> Iterator[Tensor]:
    """What processes that train as one have alike."""
    for model in scheme.models:
        yield from model.state_dict().values()
    yield from progress.scheme.values()


def _write(out: Path, progress: Progress) -> None:
    """What is read beside the model. Again when a run goes on: it may have been killed between state and files."""
    if not processes.is_first():
        return
    model_files.write_history(out, progress.history)
    if progress.records:
        pairs.write_rematching(out, progress.records)


@contextlib.contextmanager
def _enough_memory(epoch: int, name: str) -> Iterator[None]:
    """Raises PipelineError with advice where memory runs out. epoch: how many are finished, and kept."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        kept = f" (goes on after {epoch} finished epochs)" if epoch else ""
        raise PipelineError(
            f"train {name}, epoch {epoch + 1}: {shortage(error)}; free some and run the same command again{kept}, or set "
            f"runs.{name}.train.chunk, which encodes a batch in parts, or a smaller train.batch_size (both start anew)"
        ) from error


def _copied(model: DualEncoder) -> dict[str, Tensor]:
    return {key: value.detach().cpu().clone() for key, value in model.state_dict().items()}


def _validated(validate: Validate, models: Sequence[DualEncoder], epoch: int, name: str) -> dict[str, float]:
    """Raises PipelineError with run and epoch: weights that are not finite fail here when the last step made them so."""
    try:
        return validate(models)
    except PipelineError as error:
        finite = all(weight.isfinite().all() for model in models for weight in model.state_dict().values())
        kind, advice = (type(error), "") if finite else (PipelineError, f"; {ADVICE}")
        raise kind(f"train {name}, epoch {epoch + 1}, validation: {error}{advice}") from error


def _epoch(
    scheme: Scheme,
    optimizer: torch.optim.Optimizer,
    averages: Averages,
    sampler: Callable[[int], list[np.ndarray]],
    epoch: int,
    name: str,
) -> tuple[float, list[StepResult]]:
    """One pass over the epoch's batches. Returns the mean loss of a pair's batch, weighted by batch size (0 without any), and
    its steps."""
    setting = scheme.setting
    # Dropout draws from torch's own generator: tie it to the epoch, so that a resumed run draws the same.
    torch.manual_seed(derive_seed(setting.seed, "dropout", epoch))
    for model in scheme.models:
        model.start(epoch)
    scheme.start(epoch)
    averages.start(epoch, anew=epoch in scheme.starts)
    batches = scheme.batches(epoch, sampler(epoch))
    for model in scheme.models:
        model.train()
    steps: list[StepResult] = []
    pixels_of = epoch if setting.model.trains_on_pixels else None
    with contextlib.closing(setting.pairs.batches(batches, pixels_of)) as reading:
        for number, batch in enumerate(track(reading, len(batches), f"train {name} epoch {epoch + 1}")):
            scheme.passed = epoch + number / len(batches)
            scheme.set_rates(optimizer, epoch, number, len(batches))
            try:
                value, norm = step(scheme, optimizer, batch)
            except PipelineError as error:
                first = ", ".join(map(str, batch.pairs[:5]))
                raise type(error)(f"train {name}, epoch {epoch + 1}, pairs {first}, ...: {error}") from error
            averages.follow(scheme.model)
            steps.append(StepResult(value, norm, len(batch.pairs)))
    averages.end()
    total, pairs = 0.0, 0
    for one in steps:
        total += one.loss * one.pairs
        pairs += one.pairs
    return total / max(pairs, 1), steps
