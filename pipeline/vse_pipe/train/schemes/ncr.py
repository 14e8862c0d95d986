"""NCR (NeurIPS 2021): each of two networks is trained on the trust of the other in every pair."""

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
    """After a warm-up each epoch divides all pairs by their losses under both networks. Each network is trained on the
    division by the other, first the run's model, then its peer.

    Source: Huang et al., Learning with noisy correspondence for cross-modal matching, NeurIPS 2021. Details that the paper
    leaves open follow the authors' public code: the mean instead of the hardest violation in warm-up and per-sample loss, no
    noisy pairs in the first half of the epochs, a rate that decays from the end of the warm-up on, separate steps for clean
    and noisy batches. Unlike the code, the labels of a noisy batch are predicted after the step on the clean batch; in the
    warm-up the peer has the sampler's batches in another order; epochs of the warm-up can be the best. With fewer than two
    clean pairs the network has one more epoch of warm-up; with fewer than two noisy pairs it has only clean batches.
    """

    def __init__(self, setting: Setting, params: Params) -> None:
        super().__init__(setting)
        self.params = params
        self.decays_from = params.warm_up
        assert setting.build is not None
        peer = setting.build(derive_seed(setting.seed, "peer")).to(setting.device)
        self._networks = (setting.model, peer)
        self._peers_optimizer = optimizer_for(peer, setting.train)
        # The division that each network is trained on, and the network and part of each step of the epoch.
        self.teachers: list[Division | None] = [None, None]
        self._plan: list[tuple[int, Part]] = []
        self._first = self._step = 0
        self._now = 0, "warm_up"
        self._margins: Tensor | None = None
        if params.warm_up >= setting.train.epochs:
            warn(f"ncr: {params.warm_up} epochs of warm-up leave none of train.epochs {setting.train.epochs}")
        elif params.select == "after_warm_up":
            self.selects_from = params.warm_up

    @property
    def models(self) -> tuple[DualEncoder, ...]:
        return self._networks

    @property
    def model(self) -> DualEncoder:
        return self._networks[self._now[0]]

    def optimizer(self, run_optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        return self._peers_optimizer if self._now[0] else run_optimizer

    def set_rates(self, run_optimizer: torch.optim.Optimizer, epoch: int, step: int, steps: int) -> None:
        """The first network has its complete pass, then the second; each counts its steps."""
        first, is_peer = self._first, step >= self._first
        at = self.moment(epoch, step - first, steps - first) if is_peer else self.moment(epoch, step, first)
        set_rates(self._peers_optimizer if is_peer else run_optimizer, self.setting.train, at)

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
                    f"ncr, epoch {epoch + 1}: network {place + 1} takes too few pairs for clean; one more epoch of warm-up for the other"
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
            clean = clean.to(self.setting.device, non_blocking=True)
            labels = refined(clean, self._predicted(place, batch), self.params.variant)
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
        return Division.fit(self.pair_losses(network, epoch, self.params.margin), self.params.threshold)

    def _tell(self, divisions: "list[Division]") -> None:
        counts = " and ".join(str(int(division.clean.sum())) for division in divisions)
        mismatched, truth = self.setting.pairs.mismatched, ""
        areas = [auc(-division.probability, mismatched) for division in divisions] if mismatched is not None else [None]
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
        matches = setting.pairs.matches(batch.pairs)
        scored = Scored.from_scores(scores, batch.owners, setting.train.mask_same_image, matches=matches)
        return predicted(scored, self.params.margin)


@dataclass(frozen=True)
class Division:
    """probability: of every pair to be clean; clean: the pairs taken for clean; doubt: why no division was possible."""

    probability: Float[ndarray, " pairs"]
    clean: Bool[ndarray, " pairs"]
    doubt: str | None = None

    @classmethod
    def fit(cls, losses: Float[ndarray, " pairs"], threshold: float) -> "Division":
        """threshold: of the probability. Where all pairs are above it, the ``n // 100 + 1`` pairs of lowest probability are
        noisy, as in the authors' code. Raises PipelineError for losses that are not finite."""
        if not np.isfinite(losses).all():
            raise PipelineError("the losses of the training pairs are not finite; lower train.lr")
        fitted = mixture.fit_gaussian(losses)
        clean = fitted.posterior > threshold
        if fitted.doubt is None and clean.all():
            clean[np.argsort(fitted.posterior, kind="stable")[: len(losses) // 100 + 1]] = False
        return cls(fitted.posterior, clean, fitted.doubt)

    @property
    def trains(self) -> bool:
        """Whether there are enough clean pairs to train on."""
        return int(self.clean.sum()) >= FEWEST

    def steps(self, size: int, noisy: bool, rng: np.random.Generator) -> list[tuple[ndarray, bool]]:
        """One pass over the clean pairs in batches of ``size``: the pairs of each batch, and whether they are clean.

        noisy: every batch is followed by a batch of noisy pairs, in as many passes as needed; with fewer than two noisy
        pairs there is none.
        """
        labelled = _cut(np.flatnonzero(self.clean), size, rng)
        rest = np.flatnonzero(~self.clean)
        if not noisy or len(rest) < FEWEST:
            return [(pairs, True) for pairs in labelled]
        unlabelled: list[ndarray] = []
        while len(unlabelled) < len(labelled):
            unlabelled += _cut(rest, size, rng)
        batches = zip(labelled, unlabelled, strict=False)
        return [step for clean, mismatched in batches for step in ((clean, True), (mismatched, False))]


def _cut(pairs: ndarray, size: int, rng: np.random.Generator) -> list[ndarray]:
    """Random batches of ``size``; a last single pair, which has no negative, is left out as in the authors' code."""
    order = rng.permutation(pairs)
    parts = [order[start : start + size] for start in range(0, len(order), size)]
    return [part for part in parts if len(part) >= FEWEST]


def predicted(batch: Scored, margin: float) -> Float[Tensor, " pairs"]:
    """How well each pair fits under these scores, from 0 to 1, relative to the best pairs of its batch.

    ``p_i = clamp(m - (mean_t [m - S_ii + S_it]+ + mean_j [m - S_ii + S_ji]+) / 2, 0, m)`` divided by the mean of the
    ``B // 10 + 1`` largest of the batch, at most 1. Where no pair of the batch fits, every prediction is 0.
    """
    fits = (margin - sample_losses(batch, margin) / 2).clamp(0, margin)
    best = fits.topk(len(fits) // 10 + 1).values.mean()
    return torch.where(best > 0, (fits / best).clamp(0, 1), 0)


def refined(
    clean: Float[Tensor, " pairs"], prediction: Float[Tensor, " pairs"], variant: Variant
) -> Float[Tensor, " pairs"]:
    """Labels of pairs taken for clean: 1 and the network's prediction, weighted by the probability of being clean.

    The authors' ``code`` uses the prediction of the batch's first pair for all pairs.
    """
    predictions = prediction if variant == "paper" else prediction[:1]
    return clean + (1 - clean) * predictions


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

    In the authors' ``code`` a negative image j of caption i has the margin m_j of pair j.
    """
    positives = batch.scores.diagonal()
    image_margins = margins if variant == "paper" else margins[:, None]
    texts = margins[:, None] - positives[:, None] + batch.scores
    images = image_margins - positives[None, :] + batch.scores
    texts, images = (side.clamp_min(0).masked_fill(batch.same, 0) for side in (texts, images))
    return texts.max(dim=1).values + images.max(dim=0).values
