"""Two networks that teach each other: after a warm-up each is trained on how the other divides the pairs."""

import math
from abc import ABC, abstractmethod
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from vse_pipe.core.console import say, warn
from vse_pipe.core.seeds import derive_seed, generator
from vse_pipe.train import checkpoint
from vse_pipe.train.mixture import SMALLEST_BATCH, Division, LossMixture, trust_summary
from vse_pipe.train.model import DualEncoder
from vse_pipe.train.optimise import optimizer_for
from vse_pipe.train.scheme import Scheme, Setting, set_rates
from vse_pipe.train.schemes.options import BicroOptions, NcrOptions, Shape, Variant
from vse_pipe.train.scored import Scored

Part = Literal["warm_up", "labelled", "unlabelled"]


class TwoNetworks(Scheme, ABC):
    """After a warm-up each epoch divides all pairs by their losses under both networks. Each network is trained on the
    division by the other, first the run's model, then its peer. A scheme adds ``mixture``, ``prepare`` and ``terms``.

    The rate decays from the end of the warm-up on, clean and noisy batches have separate steps, and epochs of the warm-up
    can be the best. In the warm-up the peer has the sampler's batches in another order. With fewer than two clean pairs the
    network has one more epoch of warm-up; with fewer than two noisy pairs it has only clean batches.

    name: the scheme in messages and seeds. teachers: the division that each network is trained on.
    """

    name: str

    def __init__(self, setting: Setting, options: NcrOptions | BicroOptions) -> None:
        super().__init__(setting)
        self._options = options
        self.begins_after(self.name, options.warm_up, options.select == "after_warm_up")
        assert setting.build is not None
        peer = setting.build(derive_seed(setting.seed, "peer")).to(setting.device)
        self.networks = (setting.model, peer)
        self._peers_optimizer = optimizer_for(peer, setting.train)
        self.teachers: list[Division | None] = [None, None]
        # The network and part of each step of the epoch.
        self._plan: list[tuple[int, Part]] = []
        self._first = self._step = 0
        self._now = 0, "warm_up"

    @property
    def models(self) -> tuple[DualEncoder, ...]:
        return self.networks

    @property
    def model(self) -> DualEncoder:
        return self.networks[self._now[0]]

    def optimizer(self, run_optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        return self._peers_optimizer if self._now[0] else run_optimizer

    def set_rates(self, run_optimizer: torch.optim.Optimizer, epoch: int, step: int, steps: int) -> None:
        """The first network has its complete pass, then the second; each counts its steps."""
        first, is_peer = self._first, step >= self._first
        at = self.moment(epoch, step - first, steps - first) if is_peer else self.moment(epoch, step, first)
        set_rates(self._peers_optimizer if is_peer else run_optimizer, self.setting.train, at)

    @abstractmethod
    def mixture(self, network: DualEncoder, epoch: int) -> LossMixture:
        """The mixture of the losses of all pairs under ``network``."""

    def start(self, epoch: int) -> None:
        self.teachers = [None, None]
        if epoch < self._options.warm_up:
            return
        mixtures = [self.mixture(network, epoch) for network in self.networks]
        for place, mixture in enumerate(mixtures):
            where = f"{self.name}, epoch {epoch + 1}"
            division = divided(mixture, self._options.threshold)
            known = trust_summary(mixture.posterior, self._options.threshold, self.setting.pairs.mismatched)
            say(f"{self.name}, network {place + 1}: {known}")
            for doubt in mixture.doubts:
                warn(f"{where}: the division by network {place + 1} is doubtful: {doubt}")
            if division.trains:
                self.teachers[1 - place] = division
            else:
                warn(
                    f"{where}: network {place + 1} takes too few pairs for clean; "
                    "one more epoch of warm-up for the other"
                )

    def batches(self, epoch: int, sampled: list[np.ndarray]) -> list[np.ndarray]:
        self._first, self._step, self._plan = 0, 0, []
        after = self.setting.train.epochs - self._options.warm_up
        noisy = epoch - self._options.warm_up >= int(after * self._options.noisy_from)
        work: list[np.ndarray] = []
        for place, teacher in enumerate(self.teachers):
            rng = generator(self.setting.seed, self.name, place, epoch)
            steps: list[tuple[np.ndarray, Part]]
            if teacher is None:
                order = rng.permutation(len(sampled)) if place else range(len(sampled))
                steps = [(sampled[number], "warm_up") for number in order]
            else:
                steps = one_pass(teacher, self.setting.train.batch_size, noisy, rng)
            work += [pairs for pairs, _ in steps]
            self._plan += [(place, part) for _, part in steps]
            self._first = self._first or len(steps)
        return work

    def turn(self) -> tuple[int, Part]:
        """The network (0 or 1) of the next step and the part of the pairs that it trains on; for ``prepare``."""
        self._now = now = self._plan[self._step]
        self._step += 1
        return now

    def state(self) -> dict[str, Tensor]:
        return checkpoint.tensors_of(self.networks[1], self._peers_optimizer)

    def load_state(self, state: dict[str, Tensor]) -> None:
        checkpoint.load_into(self.networks[1], self._peers_optimizer, state)


def divided(mixture: LossMixture, threshold: float) -> Division:
    """Pairs above ``threshold`` are clean. Where all are, the ``n // 100 + 1`` pairs of lowest probability are noisy, as in the
    authors' code of NCR and BiCro."""
    clean = mixture.posterior > threshold
    if mixture.is_divided and clean.all():
        clean[np.argsort(mixture.posterior, kind="stable")[: len(clean) // 100 + 1]] = False
    return Division(mixture.posterior, clean)


def one_pass(division: Division, size: int, noisy: bool, rng: np.random.Generator) -> list[tuple[ndarray, Part]]:
    """One pass over the clean pairs in batches of ``size``: the pairs of each batch, and which part they are.

    noisy: every batch is followed by a batch of noisy pairs, in as many passes as needed; with fewer than two noisy
    pairs there is none.
    """
    steps: list[tuple[ndarray, Part]] = [
        (pairs, "labelled") for pairs in _cut(np.flatnonzero(division.clean), size, rng)
    ]
    if not noisy or len(division.noisy) < SMALLEST_BATCH:
        return steps
    unlabelled: list[ndarray] = []
    while len(unlabelled) < len(steps):
        unlabelled += _cut(division.noisy, size, rng)
    return [step for pair in zip(steps, ((pairs, "unlabelled") for pairs in unlabelled), strict=False) for step in pair]


def _cut(pairs: ndarray, size: int, rng: np.random.Generator) -> list[ndarray]:
    """Random batches of ``size``; a last single pair, which has no negative, is left out as in the authors' code."""
    order = rng.permutation(pairs)
    parts = [order[start : start + size] for start in range(0, len(order), size)]
    return [part for part in parts if len(part) >= SMALLEST_BATCH]


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
