"""Training pairs taken for matched and for mismatched, and the batches made of both."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from vse_pipe.core.errors import PipelineError
from vse_pipe.train.engine.mixture import beta
from vse_pipe.train.engine.scheme.scheme import FEWEST


@dataclass(frozen=True)
class Partition:
    """losses: of every pair; clean: which pairs are taken for matched; both: all of them, and all are rematched too."""

    losses: Float[ndarray, " pairs"]
    mixture: beta.BetaMixture
    clean: Bool[ndarray, " pairs"]
    both: bool = False

    @classmethod
    def of(
        cls, losses: Float[ndarray, " pairs"], clean: Literal["lower_mean", "code"], threshold: float
    ) -> "Partition":
        """clean: how the clean component is chosen; threshold: of its posterior. Raises PipelineError for a loss that is no
        number."""
        if not np.isfinite(losses).all():
            raise PipelineError("the losses of the training pairs are not finite; lower train.lr")
        mixture = beta.fit(losses, clean)
        return cls(losses, mixture, mixture.posterior > threshold)

    def forced(self, clean: Bool[ndarray, " pairs"], both: bool = False) -> "Partition":
        """The same losses and mixture, with another word on which pairs are matched."""
        return replace(self, clean=clean, both=both)

    @property
    def mismatched(self) -> Int[ndarray, " others"]:
        """The places of the pairs that are rematched."""
        return np.flatnonzero(~self.clean | self.both)

    @property
    def rematches(self) -> bool:
        """Whether there are enough mismatched pairs to rematch."""
        return len(self.mismatched) >= FEWEST

    @property
    def trains(self) -> bool:
        """Whether there are enough matched pairs to train on."""
        return int(self.clean.sum()) >= FEWEST

    def batches(
        self, size: int, sampled: list[ndarray], rng: np.random.Generator, rematch: bool = True
    ) -> list[ndarray]:
        """The pairs of each batch: ``size`` matched ones, and ``size`` mismatched ones after them.

        As in the authors' code an epoch is a pass over the matched pairs, the mismatched are gone through as often as that
        takes, and what does not fill a batch is left out. Where that would be all there is, a smaller batch is made of it.
        sampled: the batches of the run's sampler, used as they are but for the mismatched pairs where these are too few to
        be rematched. rematch: whether the mismatched are part of the batches.
        """
        if not self.rematches:
            kept = [chosen[self.clean[chosen]] for chosen in sampled]
            # Of three pairs the sampler may have left out one and the split another.
            return [chosen for chosen in kept if len(chosen) >= FEWEST] or _parts(np.flatnonzero(self.clean), size, rng)
        matched = _parts(np.flatnonzero(self.clean), size, rng)
        if not rematch:
            return matched
        mismatched: list[ndarray] = []
        while len(mismatched) < len(matched):
            mismatched += _parts(self.mismatched, size, rng)
        return [np.concatenate(both) for both in zip(matched, mismatched, strict=False)]


def _parts(pairs: ndarray, size: int, rng: np.random.Generator) -> list[ndarray]:
    order = rng.permutation(pairs)
    whole = max(1, len(order) // size)
    return [order[place * size : (place + 1) * size] for place in range(whole)]
