"""Two networks, each trained on the division of the pairs that the other makes."""

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from vse_pipe.core.console import say, warn
from vse_pipe.core.seeds import derive, generator
from vse_pipe.ranking.engine.words import Words
from vse_pipe.train.engine import checkpoint
from vse_pipe.train.engine.data import Batch
from vse_pipe.train.engine.loss.sample import sample_losses
from vse_pipe.train.engine.loss.scored import Scored
from vse_pipe.train.engine.loss.terms import LossTerms
from vse_pipe.train.engine.mixture.quality import auc
from vse_pipe.train.engine.model import DualEncoder
from vse_pipe.train.engine.optimise import optimizer_for
from vse_pipe.train.engine.schedule import set_rates
from vse_pipe.train.engine.scheme.scheme import Scheme, Setting
from vse_pipe.train.schemes.ncr import Params
from vse_pipe.train.schemes.ncr.division import Division
from vse_pipe.train.schemes.ncr.soft import predicted, refined, soft_margins, soft_triplets

Part = Literal["warm_up", "labelled", "unlabelled"]


def scheme(setting: Setting, params: Params) -> "Ncr":
    return Ncr(setting, params)


class Ncr(Scheme):
    """Epochs of warm-up, then each begins with the losses of all pairs under both networks; either is trained on the
    division of the other, first the run's own model, then its peer.

    Source: Huang et al., Learning with noisy correspondence for cross-modal matching, NeurIPS 2021; what the paper leaves
    open was read from the authors' public code: the mean instead of the hardest violation in warm-up and per-sample loss,
    the noisy pairs left out in the first half of the epochs, the rate that decays from the end of the warm-up on, a
    step for the clean and another for the noisy batch. Other than there, the noisy batch's labels are predicted after
    the step on the clean one; in the warm-up the peer sees the batches of the run's sampler in another order instead of
    batches of its own; epochs of the warm-up can be the best; with fewer than two pairs taken for clean the network has one
    more epoch of warm-up, and with fewer than two noisy ones it is trained on the others alone.
    """

    def __init__(self, setting: Setting, params: Params) -> None:
        super().__init__(setting)
        self.params = params
        self.decays_from = params.warm_up
        assert setting.build is not None
        peer = setting.build(derive(setting.seed, "peer")).to(setting.device)
        self._networks = (setting.model, peer)
        self._peers_optimizer = optimizer_for(peer, setting.train)
        # What each network is taught by, and which network and part of its pass each step of the epoch is.
        self.teachers: list[Division | None] = [None, None]
        self._plan: list[tuple[int, Part]] = []
        self._first = self._step = 0
        self._now = 0, "warm_up"
        self._margins: Tensor | None = None
        if params.warm_up >= setting.train.epochs:
            warn(f"ncr: {params.warm_up} epochs of warm-up leave none of train.epochs {setting.train.epochs}")

    @property
    def models(self) -> tuple[DualEncoder, ...]:
        return self._networks

    @property
    def model(self) -> DualEncoder:
        return self._networks[self._now[0]]

    def optimizer(self, own: torch.optim.Optimizer) -> torch.optim.Optimizer:
        return self._peers_optimizer if self._now[0] else own

    def set_rates(self, own: torch.optim.Optimizer, epoch: int, step: int, steps: int) -> None:
        """The first network is trained for its whole pass, then the second: each has its own steps."""
        first, peers = self._first, step >= self._first
        at = self.moment(epoch, step - first, steps - first) if peers else self.moment(epoch, step, first)
        set_rates(self._peers_optimizer if peers else own, self.setting.train, at)

    def start(self, epoch: int) -> None:
        self.teachers = [None, None]
        if epoch < self.params.warm_up:
            return
        found = [self._divided(network, epoch) for network in self._networks]
        self._tell(found)
        for place, own in enumerate(found):
            if own.doubt:
                warn(f"ncr, epoch {epoch + 1}: network {place + 1} cannot divide the pairs: {own.doubt}")
            if own.trains:
                self.teachers[1 - place] = own
            else:
                warn(
                    f"ncr, epoch {epoch + 1}: network {place + 1} takes too few pairs for clean; one more epoch of warm-up "
                    "for the other"
                )

    def batches(self, epoch: int, sampled: list[np.ndarray]) -> list[np.ndarray]:
        self._first, self._step, self._plan = 0, 0, []
        after = self.setting.train.epochs - self.params.warm_up
        noisy = epoch - self.params.warm_up >= int(after * self.params.noisy_from)
        work: list[np.ndarray] = []
        for place, teacher in enumerate(self.teachers):
            rng = generator(self.setting.seed, "ncr", place, epoch)
            steps: list[tuple[np.ndarray, Part]]
            if teacher is None:
                order = rng.permutation(len(sampled)) if place else range(len(sampled))
                steps = [(sampled[number], "warm_up") for number in order]
            else:
                cut = teacher.steps(self.setting.train.batch_size, noisy, rng)
                steps = [(pairs, "labelled" if clean else "unlabelled") for pairs, clean in cut]
            work += [pairs for pairs, _ in steps]
            self._plan += [(place, part) for _, part in steps]
            self._first = self._first or len(steps)
        return work

    def prepare(self, batch: Batch) -> Batch:
        self._now = place, part = self._plan[self._step]
        self._step += 1
        if part == "labelled":
            teacher = self.teachers[place]
            assert teacher is not None
            clean = torch.from_numpy(teacher.probability[batch.pairs]).float()
            labels = refined(clean.to(self.setting.device), self._predicted(place, batch), self.params.variant)
        elif part == "unlabelled":
            labels = (self._predicted(0, batch) + self._predicted(1, batch)) / 2
        else:
            self._margins = None
            return batch
        self._margins = soft_margins(labels, self.params.margin, self.params.soft_margin)
        return batch

    def terms(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> LossTerms:
        scored = self.scored(images, texts, batch)
        if self._margins is None:
            return LossTerms(sample_losses(scored, self.params.margin), "sum")
        return LossTerms(soft_triplets(scored, self._margins, self.params.variant), "sum")

    def state(self) -> dict[str, Tensor]:
        return checkpoint.tensors_of(self._networks[1], self._peers_optimizer)

    def load_state(self, state: dict[str, Tensor]) -> None:
        checkpoint.load_into(self._networks[1], self._peers_optimizer, state)

    def _divided(self, network: DualEncoder, epoch: int) -> Division:
        return Division.of(self.pair_losses(network, epoch, self.params.margin), self.params.threshold)

    def _tell(self, found: list[Division]) -> None:
        counts = " and ".join(str(int(one.clean.sum())) for one in found)
        known, truth = self.setting.pairs.mismatched, ""
        areas = [auc(-one.probability, known) for one in found] if known is not None else [None]
        if None not in areas:
            truth = f", AUC of the mismatched {areas[0]:.3f} and {areas[1]:.3f}"
        say(f"ncr: {counts} of {len(found[0].clean)} pairs are taken for clean by the two networks{truth}")

    @torch.no_grad()
    def _predicted(self, place: int, batch: Batch) -> Tensor:
        network, setting = self._networks[place], self.setting
        was_training = network.training
        network.eval()
        images, texts = network.encode(batch, setting.device, setting.train.precision)
        scores = network.score(images, texts)
        network.train(was_training)
        owners, matches = batch.owners.to(scores.device), setting.pairs.matches(batch.pairs, scores.device)
        scored = Scored.of(scores, owners, setting.train.mask_same_image, matches=matches)
        return predicted(scored, self.params.margin)
