"""Validation after every epoch: recall both ways under plain nearest neighbours, and their sum."""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vse_pipe.artifacts import model_files, pairs
from vse_pipe.core import mapped, processes
from vse_pipe.core.console import say, track, warn
from vse_pipe.core.errors import DeadRun, PipelineError, out_of_memory, shortage
from vse_pipe.core.seeds import derive_seed
from vse_pipe.ranking.fragments import MeanScore, Several, Sides, Words
from vse_pipe.ranking.metrics.convergence import converged, waited
from vse_pipe.ranking.metrics.recall import Truth, best_ranks, hits_at, recall
from vse_pipe.ranking.metrics.recall import chance as recall_by_chance
from vse_pipe.ranking.scores import Scores, Similarity
from vse_pipe.train import checkpoint
from vse_pipe.train import model as train_model
from vse_pipe.train.checkpoint import Progress
from vse_pipe.train.data import TrainTable
from vse_pipe.train.gradient_cache import ADVICE
from vse_pipe.train.model import DualEncoder
from vse_pipe.train.optimise import Averages, optimizer_for, step
from vse_pipe.train.scheme import Scheme, set_rates

KS = (1, 5, 10)


def validator(
    table: TrainTable, images: int, device: torch.device
) -> Callable[[Sequence[DualEncoder]], dict[str, float]]:
    """A function of the models: R@1, 5 and 10 in percent and ``val_rsum`` on the first ``images`` validation images, by the
    mean of the models' scores.

    Where texts that read alike are one text, it is ranked once, and any of its images is correct. The authors validate on the first 1,000 dev images whatever their number; a smaller set is used whole.
    """
    rows = table.val_image_rows[:images]
    captions, told, answers = _questions(table, images)

    def encoded(model: DualEncoder) -> tuple[Tensor, Tensor | Words]:
        seen = train_model.images(model, table.source(model.tests_on_pixels), rows, device)
        read = train_model.captions(model, table.texts, captions, device)
        return (seen.to(device), read.to(device)) if model.fragments else (seen, read)

    def check(models: Sequence[DualEncoder]) -> dict[str, float]:
        sides: list[tuple[Sides, Sides]] = [encoded(model) for model in models]
        seen, read = sides[0]
        score: Similarity = models[0].score
        if len(models) > 1:
            seen, read = (Several(side) for side in zip(*sides, strict=True))
            score = MeanScore([model.score for model in models])
        with contextlib.ExitStack() as modes:
            for model in models:
                modes.enter_context(train_model.evaluating(model))
            scores = Scores.of(seen, read, score)
            measured = {
                **_recalls(scores, told, "i2t"),
                **_recalls(scores.transposed(), answers, "t2i"),
            }
        return {**measured, "val_rsum": round(sum(measured.values()), 6)}

    return check


def chance(table: TrainTable, images: int) -> float:
    """``val_rsum`` that random ranks have on average. table, images: as of ``validator``."""
    _, *both = _questions(table, images)
    return sum(recall_by_chance(np.diff(truth.starts), truth.columns, k) for truth in both for k in KS)


def _questions(table: TrainTable, images: int) -> tuple[np.ndarray, Truth, Truth]:
    """The captions, which of them are correct for each image, and which images for each caption."""
    chosen = table.val_images[:images]
    known = np.isin(table.val_caption_images, chosen)
    captions, owners = table.val_captions[known], table.val_caption_images[known]
    if table.val_texts is None:
        return captions, Truth.by_image(chosen, owners), Truth.by_image(owners, chosen)
    numbers, first = np.unique(table.val_texts[known], return_index=True)
    pairs = owners, table.val_texts[known]
    answers = Truth.by_pairs(numbers, chosen, *reversed(pairs))
    return captions[first], Truth.by_pairs(chosen, numbers, *pairs), answers


def _recalls(scores: Scores, truth: Truth, direction: str) -> dict[str, float]:
    ranks = np.concatenate([best_ranks(block, rows, truth, "pessimistic") for rows, block in scores.blocks()])
    return {f"val_{direction}_r{k}": round(recall(hits_at(ranks, k)), 6) for k in KS}


# Whether a run stands still before it has learned anything: said after the epoch, and ended where nothing can move it.
#
# On a plateau loss and validation stand still at chance, and the gradients are as large as ever. Training may leave a plateau: MAX
# stands at ``2 x batch x margin`` for some epochs, with gradients of norm 0.3 and more. A dead run has no gradients: where HAL's relu passes
# none, their norm falls below 1e-6 within an epoch. Only a dead run is ended.

# Norm of all gradients below which no weight moves. Spread over a million weights it is a tenth of the eps that Adam divides by.
VANISHED = 1e-6
# A loss of which no gradient is left has not reached its minimum of 0.
UNSOLVED = 1e-3
# Relative change of the mean loss, between the last two quarters of an epoch, below which it stands still.
STILL = 1e-3
# Steps that an epoch needs to tell whether its loss stands still: two a quarter.
FEWEST = 8
# Chance varies: rsum is at chance up to half above it, or a twentieth of the way to the highest rsum, whichever is less.
ABOVE, ON_THE_WAY, HIGHEST = 0.5, 0.05, 600.0


class StepResult(NamedTuple):
    """Mean loss of a step's batch, norm of all gradients before clipping, and pairs of the batch."""

    loss: float
    norm: float
    pairs: int


@dataclass
class Watch:
    """Looks at every epoch of a run.

    name: of the run; loss: of its loss. chance: rsum that random ranks have on the validation split. stuck: mean loss and pairs of
    a batch to what the loss says of a point that it does not leave; None of a loss that says nothing. stops: whether a dead run is
    ended, ``train.stop_when_dead``.
    """

    name: str
    loss: str
    chance: float
    stuck: Callable[[float, int], str | None] | None = None
    stops: bool = True
    warned: int = 0

    def after(self, epoch: int, steps: Sequence[StepResult], rsum: float) -> None:
        """Warn of the first epoch that stood still at chance. Raises DeadRun where no gradient is left.

        epoch: counted from 1. steps: those of the epoch in their order; rsum: that of validation after it.
        """
        if not steps or not self._at_chance(rsum):
            return
        pairs = max(step.pairs for step in steps)
        losses = [step.loss for step in steps if step.pairs == pairs]  # the loss of a short batch is another
        quarter = -(-len(losses) // 4)
        value = float(np.mean(losses[-quarter:]))
        reason = self.stuck(value, pairs) if self.stuck else None
        norm = max(step.norm for step in steps[-quarter:])
        place = (
            f"train {self.name}, epoch {epoch}: validation rsum {rsum:.1f} is about that of chance ({self.chance:.1f})"
        )
        if norm <= VANISHED and (reason or value > UNSOLVED):
            reason = reason or f"the loss stands at {value:.4g}; {self._advice()}"
            message = f"{place}, and no gradient is left (norm {norm:.1e}): {reason}"
            if self.stops:
                raise DeadRun(f"{message}; train.stop_when_dead: false trains on")
            self._warn(epoch, message)
        elif reason:
            self._warn(epoch, f"{place}, and {reason}")
        elif len(losses) >= FEWEST:
            before = float(np.mean(losses[-2 * quarter : -quarter]))
            if abs(value - before) < STILL * abs(before):
                self._warn(
                    epoch, f"{place}, and the loss stands still at {value:.4g}; if it stays there, {self._advice()}"
                )

    def end(self, row: Mapping[str, Any], pairs: int) -> str | None:
        """Why a run that has ended at chance stood still, None for every other run. It is a warning too, unless ``after`` has just said so.

        row: the last of history.csv; pairs: of a batch.
        """
        reason = self.stuck(row["loss"], pairs) if self.stuck and self._at_chance(row["val_rsum"]) else None
        if reason and self.warned != row["epoch"]:
            warn(f"train {self.name}: {reason}")
        return reason

    def _at_chance(self, rsum: float) -> bool:
        return rsum <= self.chance + min(ABOVE * self.chance, ON_THE_WAY * (HIGHEST - self.chance))

    def _warn(self, epoch: int, message: str) -> None:
        if not self.warned:
            warn(message)
            self.warned = epoch

    def _advice(self) -> str:
        return f"change train.lr or train.warm_up, the options of loss.{self.loss}, or train.precision"


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
