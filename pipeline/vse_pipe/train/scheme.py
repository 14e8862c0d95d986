"""The rate of every step, in closed form of epoch and step: nothing to keep, so a run that goes on takes the same ones.

``torch.optim.lr_scheduler`` counts calls instead; how many steps an epoch has differs between epochs of some schemes, and its
recursion for the cosine rounds otherwise than the formula.
"""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from vse_pipe.core.console import track
from vse_pipe.core.seeds import generator
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.ranking.fragments import Words
from vse_pipe.train.batch import LossTerms, Scored, sample_losses
from vse_pipe.train.data import Batch, Pairs, TrainRegions
from vse_pipe.train.heads import OwnRate
from vse_pipe.train.inputs import Teacher
from vse_pipe.train.model import DualEncoder


@dataclass(frozen=True)
class Moment:
    """Where training stands: before ``step`` of the ``steps`` of ``epoch``, both counted from 0.

    anew: the epoch in which the network last began with fresh weights; decays_from: that from which decay is counted,
    L2RM's end of the warm-up.
    """

    epoch: int
    step: int = 0
    steps: int = 1
    anew: int = 0
    decays_from: int = 0


def set_rates(optimizer: torch.optim.Optimizer, params: TrainParams, at: Moment) -> float:
    """Give every group its rate. Returns that of the parameters without an own rate."""
    for group in optimizer.param_groups:
        later: OwnRate | None = group["later"]
        rate: OwnRate = later if later and at.epoch >= later.after else group["rate"]
        group["lr"] = rate.lr * share(params, at, rate.after)
    return optimizer.param_groups[0]["lr"]


def share(params: TrainParams, at: Moment, begins: int = 0) -> float:
    """Of the full rate. begins: the epoch from which the schedule of these parameters counts.

    Both schedules are multiplied by a line that reaches 1 with the last step of ``warm_up`` epochs. ``steps`` is
    ``0.1 ^ (epochs // lr_update)``; ``cosine``, once the warm-up is over, ``final + (1 - final) (1 + cos(pi t)) / 2`` with t
    from 0 to 1 over the steps that are left of all epochs (Loshchilov and Hutter, SGDR, ICLR 2017, Eq. 5, without restarts).
    """
    begins = max(begins, at.anew)
    rises = 1.0
    if params.warm_up and at.epoch >= begins:
        rises = min(1.0, (at.epoch - begins + (at.step + 1) / at.steps) / params.warm_up)
    if params.schedule == "steps":
        return rises * 0.1 ** (max(at.epoch - max(begins, at.decays_from), 0) // params.lr_update)
    full = max(begins + params.warm_up, at.decays_from)
    gone = max(at.epoch + at.step / at.steps - full, 0) / max(params.epochs - full, 1 / at.steps)
    return rises * (params.final + (1 - params.final) * (1 + math.cos(math.pi * min(gone, 1))) / 2)


# Pairs of a batch: a loss needs a negative, a masked transport another pair.
FEWEST = 2


@dataclass(frozen=True)
class Setting:
    """What a scheme may use. loss: the run's loss with its parameters; pairs: all training pairs; build: a model like
    ``model`` with fresh weights from a seed, on the CPU; loss_with: the run's loss with other values of its options, by name;
    regions: of schemes that need them (``SchemeTraits.regions``); loss_options: the ``Params`` of the run's loss; teacher: of
    schemes that have one (``SchemeTraits.teacher``).
    """

    model: DualEncoder
    loss: Callable[[Scored], LossTerms]
    pairs: Pairs
    train: TrainParams
    seed: int
    device: torch.device
    build: Callable[[int], DualEncoder] | None = None
    loss_with: Callable[..., Callable[[Scored], LossTerms]] | None = None
    regions: TrainRegions | None = None
    loss_options: Any = None
    teacher: Teacher | None = None


class Scheme:
    """No state: the loss of the batch. Schemes with state override ``start`` and ``scored`` or ``terms``.

    What ``start`` keeps must follow from (seed, epoch) and the model, so that a resumed run is bit-equal to one that never
    stopped; anything else that lasts from epoch to epoch goes through ``state`` and ``load_state``.

    solved: whether there are no steps that could be too few; such a run has always converged. decays_from: the epoch, counted from 0, from which the rate's decay is counted; until then the rate is ``train.lr``.
    starts: the epochs that begin with a network of fresh weights, the first among them.
    selects_from: the first epoch that can be the best. passed: epochs trained so far, with the share of the one at hand; set
    before each step.
    """

    solved = False
    decays_from = 0
    starts: tuple[int, ...] = (0,)
    selects_from = 0
    passed = 0.0

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    @property
    def models(self) -> tuple[DualEncoder, ...]:
        """What is evaluated as one, by the mean of their scores: the run's own model first, at most one beside it."""
        return (self.setting.model,)

    @property
    def model(self) -> DualEncoder:
        """The one of ``models`` that the step at hand trains, after ``prepare``."""
        return self.setting.model

    def optimizer(self, own: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """That of ``model``. own: that of the run's own model."""
        return own

    def moment(self, epoch: int, step: int = 0, steps: int = 1) -> Moment:
        """Before that step of the epoch, for the rates."""
        anew = max(start for start in self.starts if start <= epoch)
        return Moment(epoch, step, steps, anew, self.decays_from)

    def set_rates(self, own: torch.optim.Optimizer, epoch: int, step: int, steps: int) -> None:
        """Before that step of the epoch, of all its steps. own: the optimizer of the run's own model."""
        set_rates(own, self.setting.train, self.moment(epoch, step, steps))

    def start(self, epoch: int) -> None:
        """Before the first step of ``epoch``, counted from 0."""

    def batches(self, epoch: int, sampled: list[np.ndarray]) -> list[np.ndarray]:
        """The pairs of each batch, asked for after ``start``; none where that did all. sampled: those of the run's sampler."""
        return sampled

    def prepare(self, batch: Batch) -> Batch:
        """Before the forward pass of a step: what it encodes."""
        return batch

    def record(self) -> dict | None:
        """What the epoch that has ended leaves in rematching.json; None for nothing."""
        return None

    def state(self) -> dict[str, Tensor]:
        """What must outlive the process beside model and optimizer, by name."""
        return {}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Take over what ``state`` gave."""

    def pair_losses(
        self, model: DualEncoder, epoch: int, margin: float, reduction: Literal["mean", "hardest"] = "mean"
    ) -> np.ndarray:
        """The triplet loss of all training pairs under ``model``: L2RM (Han et al., CVPR 2024), Eq. 4. reduction: over the
        batch, the ``mean`` as in the authors' code, or the ``hardest`` negatives of the paper's Eq. 2."""
        return self.of_pairs(model, epoch, partial(sample_losses, margin=margin, hardest=reduction == "hardest"))

    def of_pairs(self, model: DualEncoder, epoch: int, judge: Callable[[Scored], Tensor]) -> np.ndarray:
        """``values_of_pairs`` of all training pairs under ``model``, in batches that follow from (seed, epoch)."""
        train, pairs, pixels = (self.setting.train, self.setting.pairs, epoch if model.trains_on_pixels else None)
        work = groups(len(pairs), train.batch_size, self.setting.seed, epoch)
        how = train.mask_same_image, train.precision, pixels
        return values_of_pairs(model, pairs, work, self.setting.device, judge, *how)

    def scored(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> Scored:
        """images, texts: (pairs, dim) vectors of the batch."""
        scores = self.model.score(images, texts)
        owners, setting = batch.owners.to(scores.device), self.setting
        matches = setting.pairs.matches(batch.pairs, scores.device)
        mask = setting.train.mask_same_image
        return Scored.of(scores, owners, mask, images, texts, matches=matches, passed=self.passed)

    def terms(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> LossTerms:
        return self.setting.loss(self.scored(images, texts, batch))


def groups(pairs: int, size: int, seed: int, epoch: int) -> list[ndarray]:
    """All pairs in random batches of ``size``, which follow from (seed, epoch). No batch has a single pair: it joins the
    one before."""
    order = generator(seed, "samples", epoch).permutation(pairs)
    starts = list(range(0, pairs, size))
    if len(starts) > 1 and pairs - starts[-1] == 1:
        starts.pop()
    return np.split(order, starts[1:])


@torch.inference_mode()
def values_of_pairs(
    model: DualEncoder,
    pairs: Pairs,
    work: list[ndarray],
    device: torch.device,
    judge: Callable[[Scored], Tensor],
    mask_same_image: bool = False,
    precision: str = "float32",
    pixels_of: int | None = None,
    title: str = "losses of pairs",
) -> Float[ndarray, " pairs"]:
    """The number that ``judge`` gives each pair within its batch of ``work``, in evaluation mode and without gradients.

    Schemes tell matched and mismatched pairs apart by it.

    Works with any model that has ``encode`` and ``score``. judge: a batch to (pairs,) numbers; pixels_of: the epoch whose
    crops are shown, for encoders that read images. A value depends on which pairs share the batch. Pairs that are in no
    batch are NaN. Raises InputError for a batch of one pair.
    """
    values = np.full(len(pairs), np.nan)
    was_training = model.training
    model.eval()
    try:
        with contextlib.closing(pairs.batches(work, pixels_of)) as reading:
            for batch in track(reading, len(work), title):
                images, texts = model.encode(batch, device, precision)
                scores = model.score(images, texts)
                matches = pairs.matches(batch.pairs, scores.device)
                scored = Scored.of(scores, batch.owners.to(scores.device), mask_same_image, matches=matches)
                values[batch.pairs] = judge(scored).cpu().numpy()
    finally:
        model.train(was_training)
    return values
