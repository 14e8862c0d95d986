"""Training pairs divided by one network for the other to learn from, and the batches made of them (NCR, NeurIPS 2021)."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from vse_pipe.core.errors import PipelineError
from vse_pipe.train.engine.mixture import gaussian
from vse_pipe.train.engine.scheme.scheme import FEWEST


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
        found = gaussian.fit(losses)
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
