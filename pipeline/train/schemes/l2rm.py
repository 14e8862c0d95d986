"""Mismatched pairs are found by their loss and rematched by partial optimal transport (L2RM, CVPR 2024)."""

from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat
from torch import Tensor

from pipeline.core.console import say, warn
from pipeline.core.seeds import generator
from pipeline.core.strict import Strict
from pipeline.train.engine.data import Batch
from pipeline.train.engine.loss.chances import cross_entropy, with_reverse
from pipeline.train.engine.loss.hinge import hardest
from pipeline.train.engine.loss.terms import LossTerms
from pipeline.train.engine.scheme.costs import Costs
from pipeline.train.engine.scheme.partition import Partition
from pipeline.train.engine.scheme.scheme import Scheme, Setting
from pipeline.train.engine.scheme.tally import Tally
from pipeline.train.engine.transport.partial import partial_plan
from pipeline.train.engine.transport.rematch import rematch_loss
from pipeline.train.engine.transport.samples import groups, pair_losses

# A batch after the warm-up is two: matched pairs and mismatched ones.
parts = 2


class Params(Strict):
    """warm_up: epochs on all pairs; warm_up_loss: InfoNCE with reverse cross entropy as the code always has it, InfoNCE
    alone, or the hardest triplets. temperature: of both InfoNCE and the rematching. mass: share of a mismatched batch
    that is transported; regularisation: of the transport. cost: learned, or 1 - S; cost_lr: the rate it is learned at. threshold: of the
    probability to be matched. mask: nothing is transported to a pair's own caption; the authors switch it off on clean data.
    rematch: the loss of the mismatched. sample_loss: of each pair over its batch; margin: of that loss; clean: how the matched
    component is chosen, the code's way or the paper's.
    """

    warm_up: NonNegativeInt = 5
    warm_up_loss: Literal["infonce_rce", "infonce", "max"] = "infonce_rce"
    temperature: PositiveFloat = 0.05
    mass: Annotated[float, Field(gt=0, le=1)] = 0.1
    regularisation: PositiveFloat = 0.01
    cost: Literal["learned", "cosine"] = "learned"
    cost_lr: PositiveFloat = 2e-6
    threshold: Annotated[float, Field(ge=0, lt=1)] = 0.5
    mask: bool = True
    rematch: Literal["symmetric_kl", "kl", "js", "infonce"] = "symmetric_kl"
    sample_loss: Literal["mean", "hardest"] = "mean"
    margin: NonNegativeFloat = 0.2
    clean: Literal["lower_mean", "code"] = "lower_mean"


def scheme(setting: Setting, params: Params) -> "L2rm":
    return L2rm(setting, params)


class L2rm(Scheme):
    """Epochs of warm-up; after that each begins with a split of the training pairs and trains the run's own loss on those
    taken for matched plus the rematching loss on the others.

    As in the authors' code: the rate decays from the end of the warm-up on, the triplet loss is a sum over the batch and the
    rematching loss a mean. Other than there, both parts of a batch are encoded together (which only an encoder with batch
    normalisation notices; similarities are computed for each), a subset smaller than a batch makes a smaller batch instead
    of none, with fewer than two mismatched pairs the others are trained on plainly, and with fewer than two matched ones
    the epoch is one more of warm-up. After the warm-up the sampler's batches are not used.
    """

    def __init__(self, setting: Setting, params: Params) -> None:
        super().__init__(setting)
        self.params = params
        self.decays_from = params.warm_up
        rng = generator(setting.seed, "rematch", "queue")
        queue = rng.choice(
            len(setting.pairs), min(setting.train.batch_size, len(setting.pairs)), replace=False
        )
        self.costs = Costs(setting, params.cost, params.cost_lr, queue)
        self.split: Partition | None = None
        self.tally: Tally | None = None
        self._epoch = self._step = 0
        if params.warm_up >= setting.train.epochs:
            warn(
                f"l2rm: {params.warm_up} epochs of warm-up leave none of train.epochs {setting.train.epochs}"
            )

    def start(self, epoch: int) -> None:
        self._epoch, self._step = epoch, 0
        self.split = self.tally = None
        if epoch < self.params.warm_up:
            return
        found = Partition.of(self._losses(epoch), self.params.clean, self.params.threshold)
        self.tally = Tally(found, self.setting.pairs.mismatched)
        self.costs.start(epoch - self.params.warm_up)
        for doubt in found.mixture.doubts:
            warn(f"l2rm, epoch {epoch + 1}: {doubt}")
        say(f"l2rm: {int(found.clean.sum())} of {len(found.clean)} pairs are taken for matched")
        if found.trains:
            self.split = found
        else:
            warn(f"l2rm, epoch {epoch + 1}: too few matched pairs to train on; one more epoch of warm-up")

    def batches(self, epoch: int, sampled: list[np.ndarray]) -> list[np.ndarray]:
        if self.split is None:
            return sampled
        rng = generator(self.setting.seed, "rematch", "order", epoch)
        return self.split.batches(self.setting.train.batch_size, sampled, rng)

    def prepare(self, batch: Batch) -> None:
        matched = self._matched(batch)
        if 0 < matched < len(batch.pairs):
            rng = generator(self.setting.seed, "rematch", self._epoch, self._step)
            halves = batch.part(slice(0, matched)), batch.part(slice(matched, None))
            self.costs.learn(*halves, self._epoch, rng)
        self._step += 1

    def terms(self, images: Tensor, texts: Tensor, batch: Batch) -> LossTerms:
        if self.split is None:
            return self._warm_up(images, texts, batch)
        count = self._matched(batch)
        halves = slice(0, count), slice(count, None)
        scored = self.scored(images[halves[0]], texts[halves[0]], batch.part(halves[0]))
        terms = self.setting.loss(scored)
        self._own_costs(scored.scores, batch.pairs[halves[0]])
        if count == len(batch.pairs):
            return terms
        scores = self.setting.model.score(images[halves[1]], texts[halves[1]])
        loss = self._rematched(scores, batch.pairs[halves[1]])
        # Neither a mean nor a sum over pairs: the authors add what they have.
        total = (terms.total() + loss)[None]
        return LossTerms(total, "sum", {**terms.parts, "rematch": loss.detach()})

    def record(self) -> dict | None:
        return self.tally.record() if self.tally else None

    def state(self) -> dict[str, Tensor]:
        return self.costs.state()

    def load_state(self, state: dict[str, Tensor]) -> None:
        self.costs.load_state(state)

    def _losses(self, epoch: int) -> np.ndarray:
        setting = self.setting
        return pair_losses(
            setting.model,
            setting.pairs,
            groups(len(setting.pairs), setting.train.batch_size, setting.seed, epoch),
            setting.device,
            self.params.margin,
            self.params.sample_loss,
            setting.train.mask_same_image,
            setting.train.precision,
            epoch if setting.model.trains_on_pixels else None,
        )

    def _matched(self, batch: Batch) -> int:
        """How many pairs of the batch are taken for matched: its first ones."""
        return int(self.split.clean[batch.pairs].sum()) if self.split else 0

    def _warm_up(self, images: Tensor, texts: Tensor, batch: Batch) -> LossTerms:
        scored, tau = self.scored(images, texts, batch), self.params.temperature
        if self.params.warm_up_loss == "max":
            return hardest(scored, self.params.margin)
        return (
            cross_entropy(scored, tau) if self.params.warm_up_loss == "infonce" else with_reverse(scored, tau)
        )

    def _rematched(self, scores: Tensor, pairs: np.ndarray) -> Tensor:
        params = self.params
        cost = self.costs.of(scores.detach())
        plan = partial_plan(cost.clamp_min(1e-10), params.mass, params.regularisation, params.mask)
        self.tally.cost(pairs, cost.diagonal().cpu().numpy())
        self.tally.moved(float(plan.sum()))
        return rematch_loss(scores, plan, params.temperature, params.rematch)

    @torch.no_grad()
    def _own_costs(self, scores: Tensor, pairs: np.ndarray) -> None:
        # A sampler may make larger batches than the network takes; these are never rematched.
        if not self.costs.learned or scores.shape[1] <= self.costs.captions:
            self.tally.cost(pairs, self.costs.of(scores.detach()).diagonal().cpu().numpy())
