"""The training loop: epochs, validation, the watch over runs that stand still, and resuming."""

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from vse_pipe.core import processes
from vse_pipe.core.console import say, titled, warn
from vse_pipe.core.errors import DeadRun
from vse_pipe.project.params.typed import Run
from vse_pipe.project.registry import LOSSES
from vse_pipe.ranking.fragments import MeanScore, Several, Sides
from vse_pipe.ranking.recall import Truth, converged, positions, recall, waited
from vse_pipe.ranking.recall import chance as recall_by_chance
from vse_pipe.ranking.scores import Scores, Similarity
from vse_pipe.train import model as train_model
from vse_pipe.train import optimise
from vse_pipe.train.checkpoint import Checkpoint, Progress
from vse_pipe.train.data import TrainTable
from vse_pipe.train.model import DualEncoder
from vse_pipe.train.optimise import StepResult, mean_loss
from vse_pipe.train.scheme import Scheme

KS = (1, 5, 10)


class Validation:
    """Recalls on the first ``images`` validation images; a smaller set is used completely.

    Where captions with equal words are one text, it is ranked once, and any of its images is
    correct. The authors validate on the first 1,000 images.
    """

    def __init__(self, table: TrainTable, images: int, device: torch.device) -> None:
        val = self._pairs = table.val_pairs
        places = np.sort(np.unique(val.owners, return_index=True)[1])[:images]
        chosen, self._rows, self._device = val.owners[places], val.rows[places], device
        is_chosen = np.isin(val.owners, chosen)
        pairs = val.owners[is_chosen], table.val_texts[is_chosen]
        texts, first = np.unique(pairs[1], return_index=True)
        self._captions = val.places[is_chosen][first]
        self._of_images = Truth.by_pairs(chosen, texts, *pairs)
        self._of_texts = Truth.by_pairs(texts, chosen, *reversed(pairs))

    @property
    def chance(self) -> float:
        """Mean ``val_rsum`` of random ranks."""
        return sum(
            recall_by_chance(np.diff(truth.starts), truth.columns, k)
            for truth in (self._of_images, self._of_texts)
            for k in KS
        )

    def __call__(self, models: Sequence[DualEncoder]) -> dict[str, float]:
        """R@1, 5, 10 in percent and ``val_rsum``, by the mean of the models' scores."""
        sides = [self._encoded(model) for model in models]
        images, texts = sides[0]
        score: Similarity = models[0].score
        if len(models) > 1:
            images, texts = (Several(side) for side in zip(*sides, strict=True))
            score = MeanScore([model.score for model in models])
        with contextlib.ExitStack() as modes:
            for model in models:
                modes.enter_context(train_model.evaluating(model))
            scores = Scores.from_sides(images, texts, score)
            recalls = _recalls(scores, self._of_images, "i2t")
            recalls |= _recalls(scores.transposed(), self._of_texts, "t2i")
        return {**recalls, "val_rsum": round(sum(recalls.values()), 6)}

    def _encoded(self, model: DualEncoder) -> tuple[Sides, Sides]:
        source, device = self._pairs.source(model.tests_on_pixels), self._device
        images = train_model.images(model, source, self._rows, device)
        texts = train_model.captions(model, self._pairs.texts, self._captions, device)
        return (images.to(device), texts.to(device)) if model.fragments else (images, texts)


def _recalls(scores: Scores, truth: Truth, direction: str) -> dict[str, float]:
    blocks = scores.blocks()
    places = [positions(block, rows, truth, "pessimistic") for rows, block in blocks]
    ranks = np.concatenate(places)[truth.starts[:-1]]
    return {f"val_{direction}_r{k}": round(recall(ranks < k), 6) for k in KS}


# Norm of all gradients below which no weight moves. Over a million weights it is a tenth of Adam's
# eps for each. Where HAL's relu passes no gradient, the norm falls below it within an epoch.
VANISHED = 1e-6
# A loss above this value without a gradient has not reached its minimum of 0.
UNSOLVED = 1e-3
# Losses of two epochs that differ by less, as a share, stand still. MAX does so for some epochs, at
# ``2 x batch x margin``, with gradients of norm 0.3 and more, and may still leave.
STILL = 0.01
# rsum counts as chance up to half above it, or a twentieth of the way to the highest rsum,
# whichever is less.
ABOVE, ON_THE_WAY, HIGHEST = 0.5, 0.05, 600.0


@dataclass
class Watch:
    """Checks whether a run stands still at chance; ends it where it is dead, unless
    ``train.stop_when_dead`` says no. chance: validation rsum of random ranks."""

    run: Run
    chance: float
    has_warned: bool = False

    def after(self, steps: Sequence[StepResult], history: Sequence[dict[str, Any]]) -> str | None:
        """Why the last epoch of ``history``, of these steps, stood still at chance; None for other
        epochs. Warns of the first. Raises DeadRun if no gradient is left."""
        row = history[-1]
        if not steps or not self._is_chance(row):
            return None
        is_dead = self._is_dead(steps)
        if not is_dead and not self._stands_still(history):
            return None
        state = "no gradient is left at a loss of" if is_dead else "the loss stands still at"
        advice = f"lower train.lr, or change the options of loss.{self.run.loss.name}"
        reason = f"{state} {row['loss']:.4g}: {advice}"
        message = f"validation rsum {row['val_rsum']:.1f} is about that of chance ({self.chance:.1f}), {reason}"
        if is_dead and self.run.train.stop_when_dead:
            raise DeadRun(f"{message}; train.stop_when_dead: false trains on")
        if not self.has_warned:
            warn(message)
            self.has_warned = True
        return reason

    def _is_dead(self, steps: Sequence[StepResult]) -> bool:
        pairs = max(step.pairs for step in steps)
        # A shorter batch has another loss.
        full = [step for step in steps if step.pairs == pairs]
        last = full[-math.ceil(len(full) / 4) :]
        # HAL's loss is 0 where it is dead, and below at its minimum.
        least = 0.0 if LOSSES.traits(self.run.loss.name).above_zero else UNSOLVED
        return max(step.norm for step in last) <= VANISHED and mean_loss(last) >= least

    def _stands_still(self, history: Sequence[dict[str, Any]]) -> bool:
        """A run that has learned its pairs, and ranks others by chance, does not. While the rate
        warms up nothing is told."""
        if len(history) < 2 + math.ceil(self.run.train.warm_up) or not self._is_chance(history[-2]):
            return False
        first, before, loss = (history[place]["loss"] for place in (0, -2, -1))
        return loss > first / 2 and abs(loss - before) < STILL * abs(loss)

    def _is_chance(self, row: dict[str, Any]) -> bool:
        beyond = min(ABOVE * self.chance, ON_THE_WAY * (HIGHEST - self.chance))
        return row["val_rsum"] <= self.chance + beyond


def fit(
    scheme: Scheme,
    table: TrainTable,
    sampler: Callable[[int], list[np.ndarray]],
    checkpoint: Checkpoint,
) -> Progress:
    """Train for ``train.epochs`` epochs, or until ``train.patience`` is over. Goes on from the
    state of ``checkpoint``.

    sampler: epoch, counted from 0, to the pair positions of each batch. The scheme's models, or
    their averages, are validated after each epoch. The first epoch with the highest rsum is kept,
    among those from the scheme's ``selects_from`` on, or the last where the scheme ``keeps_last``.
    An epoch is watched before its state is saved, so a DeadRun leaves the state of the epoch
    before.
    """
    model, params = scheme.setting.model, scheme.setting.train
    validate = Validation(table, params.val_images, scheme.setting.device)
    watch = Watch(scheme.setting.run, validate.chance)
    optimizer = optimise.optimizer_for(model, params)
    averages = optimise.Averages(scheme.models, params.average)
    progress = checkpoint.resume(model, optimizer)
    if progress.epoch:
        scheme.load_state(progress.scheme)
        averages.load_state(progress.average)
    if 0 < progress.epoch < params.epochs:
        say(f"going on after epoch {progress.epoch} of {params.epochs}")
    for epoch in range(progress.epoch, params.epochs):
        if _patience_over(scheme, optimizer, progress):
            break
        scheme.set_rates(optimizer, epoch)
        with titled(f"epoch {epoch + 1}/{params.epochs}"):
            steps = optimise.train_epoch(scheme, optimizer, averages, sampler(epoch), epoch)
            mean, rate = mean_loss(steps), optimizer.param_groups[0]["lr"]
            row = {"epoch": epoch + 1, "lr": rate, "loss": mean, **validate(averages.models)}
            progress.stuck = watch.after(steps, [*progress.history, row])
        _record(scheme, averages, progress, row)
        if processes.is_first():
            checkpoint.save(model, optimizer, progress)
        say(f"epoch {epoch + 1}/{params.epochs}, loss {mean:.4f}, validation rsum {row['val_rsum']:.1f}")
    return progress


def _record(scheme: Scheme, averages: optimise.Averages, progress: Progress, row: dict[str, Any]) -> None:
    """Add an epoch to ``progress``. row: of history.csv."""
    epoch, rsum = row["epoch"], row["val_rsum"]
    progress.epoch = epoch
    progress.history.append(row)
    progress.scheme, progress.average, record = scheme.state(), averages.state(), scheme.record()
    progress.records += [{"epoch": epoch, **record}] if record else []
    if scheme.keeps_last or (epoch > scheme.selects_from and rsum > progress.best_rsum):
        progress.best_rsum, progress.best_epoch = rsum, epoch
        states = [model.state_dict() for model in averages.models]
        progress.best = [{key: value.detach().cpu().clone() for key, value in state.items()} for state in states]


def _patience_over(scheme: Scheme, optimizer: torch.optim.Optimizer, progress: Progress) -> bool:
    """Patience counts after the warm-ups of scheme and rate, when all layers train and epochs can
    be the best."""
    params = scheme.setting.train
    if params.patience is None:
        return False
    rates = (group[key] for group in optimizer.param_groups for key in ("rate", "later"))
    begins = [rate.after for rate in rates if rate]
    since = max(scheme.decays_from, scheme.selects_from, math.ceil(params.warm_up), *begins)
    return waited(_selectable(scheme, progress), since - scheme.selects_from) >= params.patience


def _selectable(scheme: Scheme, progress: Progress) -> list[float]:
    """rsum of the epochs that can be the best."""
    return [row["val_rsum"] for row in progress.history[scheme.selects_from :]]


def ending(scheme: Scheme, progress: Progress) -> dict:
    """The last epoch, the reason of the end (``epochs`` or ``patience``), whether the run converged
    and why it is ``stuck``, for config.json."""
    params, last = scheme.setting.train, progress.epoch
    reason = "epochs" if last == params.epochs else "patience"
    if progress.stuck:
        return {"epoch": last, "by": reason, "converged": False, "stuck": progress.stuck}
    settled = scheme.solved or converged(_selectable(scheme, progress), params.patience)
    return {"epoch": last, "by": reason, "converged": settled}
