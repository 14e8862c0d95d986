"""Two networks that teach each other: after a warm-up each is trained on how the other divides the
pairs."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from vse_pipe.core.console import warn
from vse_pipe.core.seeds import derive_seed, generator
from vse_pipe.ranking.fragments import Words
from vse_pipe.train import checkpoint
from vse_pipe.train.data import Batch
from vse_pipe.train.matches import shuffled
from vse_pipe.train.mixture import SMALLEST_BATCH, Division, LossMixture, report_trust
from vse_pipe.train.model import DualEncoder
from vse_pipe.train.optimise import optimizer_for
from vse_pipe.train.scheme import Scheme, Setting
from vse_pipe.train.scored import LossTerms, Scored, largest, violations

Part = Literal["warm_up", "labelled", "unlabelled"]


class TwoNetworks(Scheme, ABC):
    """After a warm-up each epoch divides all pairs by their losses under both networks. Each
    network is trained on the division by the other, first the run's model, then its peer.

    The rate decays from the end of the warm-up on, clean and noisy batches have separate steps, and
    epochs of the warm-up can be the best. In the warm-up the peer has the sampler's batches in
    another order. With fewer than two clean pairs the network has one more epoch of warm-up; with
    fewer than two noisy pairs it has only clean batches.

    mixture: of the losses of all pairs; teachers: the division that each network is trained on.
    """

    mixture: Callable[[ndarray], LossMixture]

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.begins_after(self.params.warm_up, self.params.select == "after_warm_up")
        peer = setting.build(derive_seed(setting.run.seed, "peer")).to(setting.device)
        self.networks = (setting.model, peer)
        self._peers_optimizer = optimizer_for(peer, setting.train)
        self.teachers: list[Division | None] = [None, None]
        # The network and part of each step of the epoch.
        self._plan: list[tuple[int, Part]] = []
        self._first = self._place = 0
        self._margins: Tensor | None = None

    @abstractmethod
    def labels(self, place: int, part: Part, batch: Batch) -> Float[Tensor, " pairs"]:
        """How surely each pair of a batch of the part fits, from 0 to 1, for the network at
        ``place``."""

    @abstractmethod
    def warm_up_terms(self, scored: Scored) -> LossTerms:
        """The loss of a batch of the warm-up."""

    def soft_terms(self, scored: Scored, margins: Float[Tensor, " pairs"]) -> LossTerms:
        """The loss of a batch whose pairs have these margins."""
        return LossTerms(soft_triplets(scored, margins), "sum")

    @property
    def models(self) -> tuple[DualEncoder, ...]:
        return self.networks

    @property
    def model(self) -> DualEncoder:
        return self.networks[self._place]

    def optimizer(self, run_optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        return self._peers_optimizer if self._place else run_optimizer

    def set_rates(self, optimizer: torch.optim.Optimizer, epoch: int, step: int = 0, steps: int = 1) -> None:
        """The first network has its complete pass, then the second; each counts its steps."""
        if step < self._first:
            super().set_rates(optimizer, epoch, step, self._first)
        else:
            super().set_rates(self._peers_optimizer, epoch, step - self._first, steps - self._first)

    def start(self, epoch: int) -> None:
        self.teachers = [None, None]
        if epoch < self.params.warm_up:
            return
        losses = [self.pair_losses(network, epoch, self.params.margin) for network in self.networks]
        mixtures = list(map(self.mixture, losses))
        for place, mixture in enumerate(mixtures):
            network = f"{self.name}, epoch {epoch + 1}, network {place + 1}"
            report_trust(network, mixture, self.params.threshold, self.setting.pairs.mismatched)
            division = divided(mixture, self.params.threshold)
            if division.trains:
                self.teachers[1 - place] = division
            else:
                warn(f"{network}: takes too few pairs for clean; the other warms up once more")

    def batches(self, epoch: int, sampled: list[np.ndarray]) -> list[np.ndarray]:
        warm_up = self.params.warm_up
        noisy = epoch - warm_up >= (self.setting.train.epochs - warm_up) // 2
        passes: list[list[tuple[np.ndarray, Part]]] = []
        for place, teacher in enumerate(self.teachers):
            rng = generator(self.setting.run.seed, self.name, place, epoch)
            if teacher is not None:
                passes.append(one_pass(teacher, self.setting.train.batch_size, noisy, rng))
                continue
            order = rng.permutation(len(sampled)) if place else range(len(sampled))
            passes.append([(sampled[number], "warm_up") for number in order])
        self._first = len(passes[0])
        self._plan = [(place, part) for place, steps in enumerate(passes) for _, part in steps]
        return [pairs for steps in passes for pairs, _ in steps]

    def prepare(self, batch: Batch) -> Batch:
        self._place, part = self._plan[self.step]
        self._margins = None
        if part != "warm_up":
            labels = self.labels(self._place, part, batch)
            self._margins = soft_margins(labels, self.params.margin)
        return batch

    def terms(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> LossTerms:
        scored = self.scored(images, texts, batch)
        if self._margins is None:
            return self.warm_up_terms(scored)
        return self.soft_terms(scored, self._margins)

    def state(self) -> dict[str, Any]:
        return checkpoint.state_of(self.networks[1], self._peers_optimizer)

    def load_state(self, state: dict[str, Any]) -> None:
        checkpoint.load_into(self.networks[1], self._peers_optimizer, state)


def divided(mixture: LossMixture, threshold: float) -> Division:
    """Pairs above ``threshold`` are clean. Where all are, the ``n // 100 + 1`` pairs of lowest
    probability are noisy, as in the authors' code of NCR and BiCro."""
    clean = mixture.posterior > threshold
    if not mixture.doubt and clean.all():
        clean[np.argsort(mixture.posterior, kind="stable")[: len(clean) // 100 + 1]] = False
    return Division(mixture.posterior, clean)


def one_pass(division: Division, size: int, noisy: bool, rng: np.random.Generator) -> list[tuple[ndarray, Part]]:
    """One pass over the clean pairs in batches of ``size``: the pairs of each batch, and which part
    they are.

    noisy: every batch is followed by a batch of noisy pairs, in as many passes as needed; with
    fewer than two noisy pairs there is none.
    """
    labelled = shuffled(np.flatnonzero(division.clean), size, rng)
    if not noisy or len(division.noisy) < SMALLEST_BATCH:
        return [(pairs, "labelled") for pairs in labelled]
    unlabelled: list[ndarray] = []
    while len(unlabelled) < len(labelled):
        unlabelled += shuffled(division.noisy, size, rng)
    kinds: tuple[Part, Part] = ("labelled", "unlabelled")
    return [step for both in zip(labelled, unlabelled, strict=False) for step in zip(both, kinds, strict=True)]


def soft_margins(labels: Float[Tensor, " pairs"], margin: float) -> Float[Tensor, " pairs"]:
    """``m (10^y - 1) / 9``: 0 for a label of 0, ``margin`` for one of 1."""
    return margin * (10**labels - 1) / 9


def soft_triplets(batch: Scored, margins: Float[Tensor, " pairs"], is_code: bool = False) -> Float[Tensor, " pairs"]:
    """``max_t [m_i - S_ii + S_it]+ + max_j [m_i - S_ii + S_ji]+`` of each pair i.

    is_code: a negative image j of caption i has the margin m_j of pair j, as in BiCro's code.
    """
    of_rows = margins[:, None]
    return largest(*violations(batch, of_rows, of_rows if is_code else margins), 1)
