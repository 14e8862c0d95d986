"""Epochs that split the pairs, and steps that train on the matched and rematch the others."""

import numpy as np
import torch
from torch import Tensor

from vse_pipe.core.console import say, warn
from vse_pipe.core.errors import InputError
from vse_pipe.core.seeds import generator
from vse_pipe.ranking.engine.words import Words
from vse_pipe.train.engine.data import Batch
from vse_pipe.train.engine.loss.chances import cross_entropy, with_reverse
from vse_pipe.train.engine.loss.hinge import hardest
from vse_pipe.train.engine.loss.terms import LossTerms
from vse_pipe.train.engine.scheme.scheme import Scheme, Setting
from vse_pipe.train.schemes.l2rm import Params
from vse_pipe.train.schemes.l2rm.costs import Costs
from vse_pipe.train.schemes.l2rm.partial import partial_plan
from vse_pipe.train.schemes.l2rm.partition import Partition
from vse_pipe.train.schemes.l2rm.rematch import refined, rematch_loss
from vse_pipe.train.schemes.l2rm.tally import Tally


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
        if params.split == "truth" and setting.pairs.mismatched is None:
            raise InputError(
                "l2rm: split 'truth' needs pairs of which it is known that some are mismatched; see split 'matched'"
            )
        self.params = params
        self.decays_from = params.warm_up
        rng = generator(setting.seed, "rematch", "queue")
        queue = rng.choice(len(setting.pairs), min(setting.train.batch_size, len(setting.pairs)), replace=False)
        self.costs = Costs(setting, params.cost, params.cost_lr, queue)
        self.split: Partition | None = None
        self.tally: Tally | None = None
        self._epoch = self._step = 0
        if params.warm_up >= setting.train.epochs:
            warn(f"l2rm: {params.warm_up} epochs of warm-up leave none of train.epochs {setting.train.epochs}")

    def start(self, epoch: int) -> None:
        self._epoch, self._step = epoch, 0
        self.split = self.tally = None
        if epoch < self.params.warm_up:
            return
        found = self._forced(Partition.of(self._losses(epoch), self.params.clean, self.params.threshold))
        self.tally = Tally(found, self.setting.pairs)
        self.costs.start(self.moment(epoch))
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
        size, rematch = self.setting.train.batch_size, self.params.rematch != "none"
        return self.split.batches(size, sampled, rng, rematch)

    def prepare(self, batch: Batch) -> Batch:
        matched = self._matched(batch)
        if 0 < matched < len(batch.pairs):
            rng = generator(self.setting.seed, "rematch", self._epoch, self._step)
            halves = batch.part(slice(0, matched)), batch.part(slice(matched, None))
            self.costs.learn(*halves, self._epoch, rng)
        self._step += 1
        return batch

    def terms(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> LossTerms:
        if self.split is None:
            return self._warm_up(images, texts, batch)
        count = self._matched(batch)
        halves = slice(0, count), slice(count, None)
        matched, mismatched = ((images[half], texts[half], batch.pairs[half]) for half in halves)
        scored = self.scored(*matched[:2], batch.part(halves[0]))
        terms = self.setting.loss(scored)
        self._own_costs(scored.scores, *matched)
        if count == len(batch.pairs):
            return terms
        loss = self._rematched(*mismatched)
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
        return self.pair_losses(self.setting.model, epoch, self.params.margin, self.params.sample_loss)

    def _forced(self, found: Partition) -> Partition:
        """What ``split`` makes of the split by losses."""
        truth = self.setting.pairs.mismatched
        if self.params.split == "truth":
            assert truth is not None
            return found.forced(~truth)
        everything = np.ones(len(found.clean), dtype=bool)
        return found if self.params.split == "losses" else found.forced(everything, self.params.split == "both")

    def _matched(self, batch: Batch) -> int:
        """How many pairs of the batch are taken for matched: its first ones."""
        if self.split is None or self.split.both:
            return len(batch.pairs) // 2 if self.split else 0
        return int(self.split.clean[batch.pairs].sum())

    def _warm_up(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> LossTerms:
        scored, tau = self.scored(images, texts, batch), self.params.temperature
        if self.params.warm_up_loss == "max":
            return hardest(scored, self.params.margin)
        return cross_entropy(scored, tau) if self.params.warm_up_loss == "infonce" else with_reverse(scored, tau)

    def _rematched(self, images: Tensor, texts: Tensor | Words, pairs: np.ndarray) -> Tensor:
        params = self.params
        assert self.tally is not None
        assert params.rematch != "none"
        scores = self.setting.model.score(images, texts)
        cost = self.costs.of(scores, images, texts)
        how = params.mass, params.regularisation, params.mask, params.tolerance
        plan = partial_plan(cost.clamp_min(1e-10), *how)
        self.tally.cost(pairs, cost.diagonal().cpu().numpy())
        self.tally.moved(pairs, plan.cpu().numpy(), refined(plan).cpu().numpy())
        return rematch_loss(scores, plan, params.temperature, params.rematch)

    @torch.no_grad()
    def _own_costs(self, scores: Tensor, images: Tensor, texts: Tensor | Words, pairs: np.ndarray) -> None:
        assert self.tally is not None
        # A sampler may make larger batches than the network takes; these are never rematched.
        if not self.costs.learned or scores.shape[1] <= self.costs.captions:
            self.tally.cost(pairs, self.costs.of(scores, images, texts).diagonal().cpu().numpy())
