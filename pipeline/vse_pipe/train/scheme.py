"""The base class of schemes: the learning rate of each step, the loss of a
batch, and values of all training pairs."""

import contextlib
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from vse_pipe.core.console import track, warn
from vse_pipe.core.seeds import generator
from vse_pipe.project.registry import LOSSES
from vse_pipe.ranking.fragments import Words
from vse_pipe.train.data import Batch
from vse_pipe.train.graphs import Graphs
from vse_pipe.train.heads import OwnRate
from vse_pipe.train.model import DualEncoder, evaluating
from vse_pipe.train.model import Setting as Setting
from vse_pipe.train.scored import LossTerms, Scored, sample_losses


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
    model, not the best on val; epoch: the present one, counted from 0; step and passed, trained
    epochs with the fraction of the present one: set before each step, so not in ``start``.
    """

    solved = False
    decays_from = 0
    starts: tuple[int, ...] = (0,)
    selects_from = 0
    keeps_last = False
    epoch = step = 0
    passed = 0.0

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.name, self.params = setting.run.scheme.name, setting.run.scheme.params
        self.graphs = Graphs()

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

    def share(self, epoch: int, step: int = 0, steps: int = 1, begins: int = 0) -> float:
        """The rate of a step as a share of the full rate. begins: the epoch at which the schedule
        of the parameters begins, if that is after the last start with fresh weights.

        Both schedules are multiplied by a line that reaches 1 at the last step of ``warm_up``
        epochs. ``steps`` is ``0.1 ^ (epochs // lr_update)``. ``cosine`` is, after the warm-up,
        ``final + (1 - final) (1 + cos(pi t)) / 2`` with t from 0 to 1 over the remaining steps
        (Loshchilov and Hutter, SGDR, ICLR 2017, Eq. 5, without restarts).
        """
        params, begins = self.setting.train, max(begins, self.last_start(epoch))
        rises = 1.0
        if params.warm_up and epoch >= begins:
            rises = min(1.0, (epoch - begins + (step + 1) / steps) / params.warm_up)
        if params.schedule == "steps":
            return rises * 0.1 ** (max(epoch - max(begins, self.decays_from), 0) // params.lr_update)
        full = max(begins + params.warm_up, self.decays_from)
        passed = max(epoch + step / steps - full, 0) / max(params.epochs - full, 1 / steps)
        return rises * (params.final + (1 - params.final) * (1 + math.cos(math.pi * min(passed, 1))) / 2)

    def last_start(self, epoch: int) -> int:
        """The last epoch up to ``epoch`` that began with fresh weights."""
        return max(start for start in self.starts if start <= epoch)

    def set_rates(self, optimizer: torch.optim.Optimizer, epoch: int, step: int = 0, steps: int = 1) -> None:
        """Set the rate of every group before a step of the epoch, which has ``steps``. optimizer:
        of the run's model."""
        for group in optimizer.param_groups:
            later: OwnRate | None = group["later"]
            rate: OwnRate = later if later and epoch >= later.after else group["rate"]
            group["lr"] = rate.lr * self.share(epoch, step, steps, rate.after)

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

    def begins_after(self, epochs: int, selects: bool = False) -> None:
        """The scheme begins after a warm-up of ``epochs``, from whose end the rate's decay is
        counted. selects: whether only later epochs can be the best."""
        self.decays_from = epochs
        if epochs >= self.setting.train.epochs:
            warn(f"{self.name}: {epochs} epochs of warm-up leave none of train.epochs {self.setting.train.epochs}")
        elif selects:
            self.selects_from = epochs

    def pair_losses(self, model: DualEncoder, epoch: int, margin: float, hardest: bool = False) -> ndarray:
        """The triplet loss of all training pairs under ``model`` (L2RM, Han et al., CVPR 2024, Eq.
        4). hardest: as in ``sample_losses``."""
        return self.pair_values(model, epoch, partial(sample_losses, margin=margin, hardest=hardest))

    def pair_values(
        self, model: DualEncoder, epoch: int, judge: Callable[[Scored], Tensor]
    ) -> Float[ndarray, " pairs"]:
        """The value of every training pair under ``judge``: a batch under ``model`` in evaluation
        mode to (pairs,) numbers.

        A value depends on the other pairs of its batch, which follows from (seed, epoch).
        """
        pairs, values = self.setting.pairs, np.empty(len(self.setting.pairs))
        work = groups(len(pairs), self.setting.train.batch_size, self.setting.run.seed, epoch)
        with contextlib.closing(pairs.batches(work, epoch if model.trains_on_pixels else None)) as reading:
            for batch in track(reading, len(work), "losses of pairs"):
                values[batch.pairs] = judge(self.judged(model, batch)).cpu().numpy()
        return values

    def judged(self, model: DualEncoder, batch: Batch) -> Scored:
        """The batch with vectors and scores of ``model`` in evaluation mode, without gradients."""
        with evaluating(model):
            images, texts = model.encode(batch, self.setting.device, self.setting.train.precision)
            return self._compared(model.score(images, texts), images, texts, batch)

    def scored(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> Scored:
        """The batch as input of the loss; images, texts: (pairs, dim) vectors, or fragments."""
        return self._compared(self.model.score(images, texts), images, texts, batch)

    def _compared(self, scores: Tensor, images: Tensor, texts: Tensor | Words, batch: Batch) -> Scored:
        matches, mask = self.setting.pairs.matches(batch.pairs), self.setting.train.mask_same_image
        return Scored.from_scores(scores, batch.owners, mask, images, texts, matches=matches, passed=self.passed)

    def terms(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> LossTerms:
        return self.loss(self.scored(images, texts, batch))

    def loss(self, batch: Scored, **values: object) -> LossTerms:
        """The run's loss, with its weights in the run's model. values: in place of its options."""
        loss, network = self.setting.run.loss, self.setting.model.loss
        learned = {} if network is None else {"network": network}
        return LOSSES.load(loss.name).loss(batch, loss.params.model_copy(update=values), **learned)


def groups(pairs: int, size: int, seed: int, epoch: int) -> list[ndarray]:
    """All pairs in random batches of ``size``, which follow from (seed, epoch). A last single pair
    joins the batch before."""
    order = generator(seed, "samples", epoch).permutation(pairs)
    starts = list(range(size, pairs, size))
    if starts and pairs - starts[-1] == 1:
        starts.pop()
    return np.split(order, starts)
