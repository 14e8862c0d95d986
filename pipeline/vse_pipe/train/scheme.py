"""The base class of schemes, their settings, the learning rate of each step, and values of all
training pairs."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from vse_pipe.core.console import track, warn
from vse_pipe.core.seeds import generator
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.ranking.fragments import Words
from vse_pipe.train.data import Batch, Pairs
from vse_pipe.train.heads import OwnRate
from vse_pipe.train.inputs import Teacher, TrainRegions
from vse_pipe.train.model import DualEncoder
from vse_pipe.train.scored import LossTerms, Scored, sample_losses


@dataclass(frozen=True)
class Moment:
    """The time before ``step`` of the ``steps`` of ``epoch``, both counted from 0.

    anew: the last epoch that began with fresh weights; decays_from: the epoch from which decay is
    counted, for example the end of L2RM's warm-up.
    """

    epoch: int
    step: int = 0
    steps: int = 1
    anew: int = 0
    decays_from: int = 0


def set_rates(optimizer: torch.optim.Optimizer, params: TrainParams, at: Moment) -> float:
    """Set the rate of every group. Returns the rate of the parameters without an ``own_rate``."""
    for group in optimizer.param_groups:
        later: OwnRate | None = group["later"]
        rate: OwnRate = later if later and at.epoch >= later.after else group["rate"]
        group["lr"] = rate.lr * share(params, at, rate.after)
    return optimizer.param_groups[0]["lr"]


def share(params: TrainParams, at: Moment, begins: int = 0) -> float:
    """The rate of a step as a share of the full rate. begins: the epoch at which the schedule of
    the parameters begins.

    Both schedules are multiplied by a line that reaches 1 at the last step of ``warm_up`` epochs.
    ``steps`` is ``0.1 ^ (epochs // lr_update)``. ``cosine`` is, after the warm-up, ``final + (1 -
    final) (1 + cos(pi t)) / 2`` with t from 0 to 1 over the remaining steps (Loshchilov and Hutter,
    SGDR, ICLR 2017, Eq. 5, without restarts).
    """
    begins = max(begins, at.anew)
    rises = 1.0
    if params.warm_up and at.epoch >= begins:
        rises = min(1.0, (at.epoch - begins + (at.step + 1) / at.steps) / params.warm_up)
    if params.schedule == "steps":
        decays_from = max(begins, at.decays_from)
        return rises * 0.1 ** (max(at.epoch - decays_from, 0) // params.lr_update)
    full = max(begins + params.warm_up, at.decays_from)
    passed = max(at.epoch + at.step / at.steps - full, 0) / max(params.epochs - full, 1 / at.steps)
    return rises * (params.final + (1 - params.final) * (1 + math.cos(math.pi * min(passed, 1))) / 2)


@dataclass(frozen=True)
class Setting:
    """The inputs of a scheme.

    loss: the run's loss with its parameters; loss_with: the same with replaced options, by name;
    loss_options: its options; pairs: all training pairs; build: function from a seed to a model
    like ``model`` with fresh weights, on the CPU; regions, teacher: only for schemes with these
    traits.
    """

    model: DualEncoder
    loss: Callable[[Scored], LossTerms]
    pairs: Pairs
    train: TrainParams
    seed: int
    device: torch.device
    build: Callable[[int], DualEncoder]
    loss_with: Callable[..., Callable[[Scored], LossTerms]]
    regions: TrainRegions | None = None
    loss_options: Any = None
    teacher: Teacher | None = None


class Scheme:
    """The scheme without state: the loss of each batch. Other schemes override ``start`` and
    ``scored`` or ``terms``.

    Attributes set by ``start`` must follow from (seed, epoch) and the model, so that a resumed run
    is bit-equal to an uninterrupted one. Everything else that lasts over epochs goes through
    ``state`` and ``load_state``.

    solved: whether the model is computed without steps, so that a run has always converged;
    decays_from: the epoch, counted from 0, from which the rate's decay is counted; until then the
    rate is ``train.lr``; starts: the epochs that begin with fresh weights, including the first;
    selects_from: the first epoch that can be the best; keeps_last: whether the last epoch is the
    model, not the best on val; passed: trained epochs, with the fraction of the present epoch, set
    before each step.
    """

    solved = False
    decays_from = 0
    starts: tuple[int, ...] = (0,)
    selects_from = 0
    keeps_last = False
    passed = 0.0

    def __init__(self, setting: Setting, params: Any = None) -> None:
        self.setting, self.params = setting, params

    @property
    def models(self) -> tuple[DualEncoder, ...]:
        """The models that are evaluated by the mean of their scores: the run's, and at most one
        more."""
        return (self.setting.model,)

    @property
    def model(self) -> DualEncoder:
        """The model that the present step trains, after ``prepare``."""
        return self.setting.model

    def optimizer(self, run_optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """The optimizer of ``model``. run_optimizer: the optimizer of the run's model."""
        return run_optimizer

    def moment(self, epoch: int, step: int = 0, steps: int = 1) -> Moment:
        """The time before a step of the epoch, for the rates."""
        anew = max(start for start in self.starts if start <= epoch)
        return Moment(epoch, step, steps, anew, self.decays_from)

    def set_rates(self, run_optimizer: torch.optim.Optimizer, epoch: int, step: int, steps: int) -> None:
        """Set the rates before a step. steps: of the whole epoch."""
        set_rates(run_optimizer, self.setting.train, self.moment(epoch, step, steps))

    def start(self, epoch: int) -> None:
        """Prepare ``epoch``, counted from 0."""

    def batches(self, epoch: int, sampled: list[np.ndarray]) -> list[np.ndarray]:
        """The pairs of each batch, after ``start``; empty where no step is needed. sampled: batches
        of the run's sampler."""
        return sampled

    def prepare(self, batch: Batch) -> Batch:
        """The batch that the next step encodes."""
        return batch

    def record(self) -> dict | None:
        """The record of the ended epoch for rematching.json, or None."""
        return None

    def state(self) -> dict[str, Any]:
        """Tensors, also nested, to save for a resumed run besides model and optimizer."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of ``state``."""

    def begins_after(self, name: str, epochs: int, selects: bool = False) -> None:
        """The scheme ``name`` begins after a warm-up of ``epochs``, from whose end the rate's decay
        is counted. selects: whether only later epochs can be the best."""
        self.decays_from = epochs
        if epochs >= self.setting.train.epochs:
            warn(f"{name}: {epochs} epochs of warm-up leave none of train.epochs {self.setting.train.epochs}")
        elif selects:
            self.selects_from = epochs

    def pair_losses(self, model: DualEncoder, epoch: int, margin: float, reduction: str = "mean") -> ndarray:
        """The triplet loss of all training pairs under ``model`` (L2RM, Han et al., CVPR 2024, Eq.
        4). reduction: ``mean`` over the batch as in the authors' code, or the ``hardest`` negatives
        of the paper's Eq. 2."""
        judge = partial(sample_losses, margin=margin, hardest=reduction == "hardest")
        return self.pair_values(model, epoch, judge)

    def pair_values(
        self, model: DualEncoder, epoch: int, judge: Callable[[Scored], Tensor]
    ) -> Float[ndarray, " pairs"]:
        """The value of every training pair under ``judge``: a batch under ``model`` in evaluation
        mode to (pairs,) numbers.

        A value depends on the other pairs of its batch, which follows from (seed, epoch).
        """
        pairs, values = self.setting.pairs, np.empty(len(self.setting.pairs))
        work = groups(len(pairs), self.setting.train.batch_size, self.setting.seed, epoch)
        with contextlib.closing(pairs.batches(work, epoch if model.trains_on_pixels else None)) as reading:
            for batch in track(reading, len(work), "losses of pairs"):
                values[batch.pairs] = judge(self.judged(model, batch)).cpu().numpy()
        return values

    def judged(self, model: DualEncoder, batch: Batch) -> Scored:
        """The batch with vectors and scores of ``model`` in evaluation mode, without gradients."""
        images, texts, scores = judged(model, batch, self.setting)
        return self._compared(scores, images, texts, batch)

    def scored(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> Scored:
        """The batch as input of the loss; images, texts: (pairs, dim) vectors, or fragments."""
        return self._compared(self.model.score(images, texts), images, texts, batch)

    def _compared(self, scores: Tensor, images: Tensor, texts: Tensor | Words, batch: Batch) -> Scored:
        matches, mask = self.setting.pairs.matches(batch.pairs), self.setting.train.mask_same_image
        return Scored.from_scores(scores, batch.owners, mask, images, texts, matches=matches, passed=self.passed)

    def terms(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> LossTerms:
        return self.setting.loss(self.scored(images, texts, batch))


def groups(pairs: int, size: int, seed: int, epoch: int) -> list[ndarray]:
    """All pairs in random batches of ``size``, which follow from (seed, epoch). A last single pair
    joins the batch before."""
    order = generator(seed, "samples", epoch).permutation(pairs)
    starts = list(range(size, pairs, size))
    if starts and pairs - starts[-1] == 1:
        starts.pop()
    return np.split(order, starts)


@torch.no_grad()
def judged(model: DualEncoder, batch: Batch, setting: Setting) -> tuple[Tensor, Tensor | Words, Tensor]:
    """Images, texts and their scores under ``model`` in evaluation mode; afterwards it returns to
    its earlier mode."""
    was_training = model.training
    model.eval()
    try:
        images, texts = model.encode(batch, setting.device, setting.train.precision)
        return images, texts, model.score(images, texts)
    finally:
        model.train(was_training)
