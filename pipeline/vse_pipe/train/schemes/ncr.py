"""Two networks that tell each other which pairs to trust, and how far (NCR, NeurIPS 2021)."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy import ndarray
from torch import Tensor

from vse_pipe.core.console import say, warn
from vse_pipe.core.errors import PipelineError
from vse_pipe.core.seeds import derive_seed, generator
from vse_pipe.ranking.fragments import Words
from vse_pipe.train import checkpoint, mixture
from vse_pipe.train.batch import LossTerms, Scored, sample_losses
from vse_pipe.train.data import Batch
from vse_pipe.train.mixture import auc
from vse_pipe.train.model import DualEncoder
from vse_pipe.train.optimise import optimizer_for
from vse_pipe.train.scheme import FEWEST, Scheme, Setting, set_rates
from vse_pipe.train.schemes.options import NcrOptions as Params
from vse_pipe.train.schemes.options import Shape, Variant

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
        peer = setting.build(derive_seed(setting.seed, "peer")).to(setting.device)
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
        divisions = [self._divided(network, epoch) for network in self._networks]
        self._tell(divisions)
        for place, division in enumerate(divisions):
            if division.doubt:
                warn(f"ncr, epoch {epoch + 1}: network {place + 1} cannot divide the pairs: {division.doubt}")
            if division.trains:
                self.teachers[1 - place] = division
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

    def _divided(self, network: DualEncoder, epoch: int) -> "Division":
        return Division.of(self.pair_losses(network, epoch, self.params.margin), self.params.threshold)

    def _tell(self, divisions: "list[Division]") -> None:
        counts = " and ".join(str(int(division.clean.sum())) for division in divisions)
        known, truth = self.setting.pairs.mismatched, ""
        areas = [auc(-division.probability, known) for division in divisions] if known is not None else [None]
        if None not in areas:
            truth = f", AUC of the mismatched {areas[0]:.3f} and {areas[1]:.3f}"
        say(f"ncr: {counts} of {len(divisions[0].clean)} pairs are taken for clean by the two networks{truth}")

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


@dataclass(frozen=True)
class Division:
    """probability: of every pair to be clean; clean: which pairs are taken for it. doubt: why there was nothing to divide."""

    probability: Float[ndarray, " pairs"]
    clean: Bool[ndarray, " pairs"]
    doubt: str | None = None

    @classmethod
    def of(cls, losses: Float[ndarray, " pairs"], threshold: float) -> "Division":
        """threshold: of the probability. Where all pairs are above it, ``n // 100 + 1`` of the lowest probability are taken
        for noisy, as in the authors' code. Raises PipelineError for a loss that is no number."""
        if not np.isfinite(losses).all():
            raise PipelineError("the losses of the training pairs are not finite; lower train.lr")
        found = mixture.fit_gaussian(losses)
        clean = found.posterior > threshold
        if found.doubt is None and clean.all():
            clean[np.argsort(found.posterior, kind="stable")[: len(losses) // 100 + 1]] = False
        return cls(found.posterior, clean, found.doubt)

    @property
    def trains(self) -> bool:
        """Whether there are enough clean pairs to train on."""
        return int(self.clean.sum()) >= FEWEST

    def steps(self, size: int, noisy: bool, rng: np.random.Generator) -> list[tuple[ndarray, bool]]:
        """One pass over the clean pairs in batches of ``size``: pairs, and whether they are the clean ones.

        noisy: every batch is followed by one of noisy pairs, which are gone through as often as that takes; with fewer than
        two of them there is none.
        """
        labelled = _cut(np.flatnonzero(self.clean), size, rng)
        rest = np.flatnonzero(~self.clean)
        if not noisy or len(rest) < FEWEST:
            return [(pairs, True) for pairs in labelled]
        unlabelled: list[ndarray] = []
        while len(unlabelled) < len(labelled):
            unlabelled += _cut(rest, size, rng)
        both = zip(labelled, unlabelled, strict=False)
        return [step for clean, other in both for step in ((clean, True), (other, False))]


def _cut(pairs: ndarray, size: int, rng: np.random.Generator) -> list[ndarray]:
    """In random order, ``size`` at a time; a last pair alone, which has no negative, is left out as in the authors' code."""
    order = rng.permutation(pairs)
    parts = [order[start : start + size] for start in range(0, len(order), size)]
    return [part for part in parts if len(part) >= FEWEST]


def predicted(batch: Scored, margin: float) -> Float[Tensor, " pairs"]:
    """How well each pair fits under these scores, from 0 to 1, against the best of its batch.

    ``p_i = clamp(m - (mean_t [m - S_ii + S_it]+ + mean_j [m - S_ii + S_ji]+) / 2, 0, m)`` divided by the mean of the
    ``B // 10 + 1`` largest of the batch, at most 1. Where no pair of the batch fits at all every prediction is 0.
    """
    fits = (margin - sample_losses(batch, margin) / 2).clamp(0, margin)
    best = fits.topk(len(fits) // 10 + 1).values.mean()
    return (fits / best).clamp(0, 1) if best > 0 else torch.zeros_like(fits)


def refined(
    clean: Float[Tensor, " pairs"], prediction: Float[Tensor, " pairs"], variant: Variant
) -> Float[Tensor, " pairs"]:
    """Labels of pairs taken for clean: 1 and the network's own prediction, weighed by the probability of being clean.

    The authors' ``code`` takes the prediction of the batch's first pair for all of them.
    """
    own = prediction if variant == "paper" else prediction[:1]
    return clean + (1 - clean) * own


def soft_margins(labels: Float[Tensor, " pairs"], margin: float, shape: Shape) -> Float[Tensor, " pairs"]:
    """0 for a label of 0, ``margin`` for one of 1. ``exponential``: ``m (10^y - 1) / 9``; ``linear``: ``m y``; ``sin``:
    ``m (sin(pi y - pi / 2) / 2 + 1 / 2)``."""
    if shape == "linear":
        return margin * labels
    if shape == "sin":
        return margin * (torch.sin(math.pi * labels - math.pi / 2) / 2 + 0.5)
    return margin * (10**labels - 1) / 9


def soft_triplets(batch: Scored, margins: Float[Tensor, " pairs"], variant: Variant) -> Float[Tensor, " pairs"]:
    """``max_t [m_i - S_ii + S_it]+ + max_j [m_i - S_ii + S_ji]+`` of each pair i.

    In the authors' ``code`` a negative image j of caption i comes with the margin m_j of its own pair.
    """
    positives = batch.scores.diagonal()
    own = margins if variant == "paper" else margins[:, None]
    texts = margins[:, None] - positives[:, None] + batch.scores
    images = own - positives[None, :] + batch.scores
    texts, images = (side.clamp_min(0).masked_fill(batch.same, 0) for side in (texts, images))
    return texts.max(dim=1).values + images.max(dim=0).values
