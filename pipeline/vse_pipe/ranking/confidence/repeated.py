"""Intervals of a method: chance in the seeds of its trainings and in the images of the test set.

All trainings of a method rank the same images, so seeds and images are crossed. With the figure of seed s as mean + seed
effect + mean over images of (image effect + interaction), the variance of the mean over S seeds is

    (variance between the S figures) / S + (covariance, over draws of images, of the figures of two different seeds)

of which the first holds seeds and interaction and the second the images alone. It is what multi-reader studies of
diagnostic images use with readers for seeds (Obuchowski and Rockette, Communications in Statistics 24, 1995; a
covariance below 0 counts as 0). The t quantile has the seeds' degrees of freedom (of two methods with seeds of their own
Welch's) divided by their share in the variance. Satterthwaite's, which the same studies use (Hillis, Statistics in
Medicine 26, 2007), divide by the square of that share: at 3 seeds that covers 92% where the share is 0.9, this 94% to 96%
everywhere. Seeds and images both drawn with replacement, percentiles taken, cover 78% to 83% where seeds matter most:
docs/comparisons.md has the simulation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import stdtr, stdtrit

from vse_pipe.ranking.confidence.figures import Address, Figures, Sample, sample
from vse_pipe.ranking.confidence.intervals import interval, p_value


@dataclass(frozen=True)
class Repetitions:
    """One figure of one method. values: of each seed; draws: of each seed under the same draws of images."""

    values: Float[np.ndarray, " seeds"]
    draws: Float[np.ndarray, "seeds draws"]

    def __len__(self) -> int:
        return len(self.values)

    def __sub__(self, other: "Repetitions") -> "Repetitions":
        """Seed by seed; both must have the same seeds in the same order."""
        return Repetitions(self.values - other.values, self.draws - other.draws)

    @property
    def between(self) -> float:
        """What chance in the seeds adds to the variance of the mean; of one seed, which is then the only one meant, 0."""
        return float(np.var(self.values, ddof=1)) / len(self) if len(self) > 1 else 0.0

    @property
    def images(self) -> float:
        """Covariance over the draws, the mean over all pairs of two seeds; of one seed its variance."""
        of_mean, of_one = np.var(self.draws.mean(axis=0), ddof=1), np.var(self.draws, axis=1, ddof=1).mean()
        seeds = len(self)
        return float((seeds * of_mean - of_one) / (seeds - 1)) if seeds > 1 else float(of_one)


@dataclass(frozen=True)
class Spread:
    """mean: over seeds, or the difference of two; error: its standard error; freedom: degrees of freedom of the t
    distribution that (mean - truth) / error has, infinite where nothing of the error is due to seeds."""

    mean: float
    error: float
    freedom: float

    def interval(self, level: float = 0.95) -> list[float]:
        """[low, high], equal tails."""
        away = float(stdtrit(min(self.freedom, 1e9), (1 + level) / 2)) * self.error
        return [self.mean - away, self.mean + away]

    def p_value(self, null: float = 0.0) -> float:
        """Two-sided, that the truth is ``null``: below 1 - level just where the interval leaves it out."""
        if self.error == 0:
            return float(self.mean == null)
        return float(2 * stdtr(min(self.freedom, 1e9), -abs(self.mean - null) / self.error))


@dataclass(frozen=True)
class Drawn:
    """The same of the draws of images for two models, one of either side, whose training is not left to chance."""

    draws: Float[np.ndarray, " draws"]

    def interval(self, level: float = 0.95) -> list[float]:
        return interval(self.draws, level)

    def p_value(self, null: float = 0.0) -> float:
        return p_value(self.draws - null)


def of_one(method: Repetitions) -> Spread:
    """Of a method's figure, or of a difference paired by seed."""
    return _spread(float(method.values.mean()), [method], method.images)


def of_difference(a: Repetitions, b: Repetitions) -> Spread:
    """Of B - A with other seeds in B than in A, images in common (Welch's variance, of seeds)."""
    together = np.cov(a.draws.mean(axis=0), b.draws.mean(axis=0))[0, 1]
    return _spread(float(b.values.mean() - a.values.mean()), [a, b], a.images + b.images - 2 * float(together))


def _spread(mean: float, methods: list[Repetitions], images: float) -> Spread:
    parts = np.array([one.between for one in methods])
    seeds = float(parts.sum())
    variance = seeds + max(images, 0.0)
    doubt = sum(part**2 / (len(one) - 1) for part, one in zip(parts, methods, strict=True) if part)
    return Spread(mean, variance**0.5, float(seeds * variance / doubt) if doubt else np.inf)


def repetitions(evaluations: Sequence[Figures], samples: Sequence[Sample]) -> dict[Address, Repetitions]:
    """The figures that all seeds have. samples: of ``evaluations``, under the same draws."""
    estimates = [one.estimate() for one in evaluations]
    return {
        address: Repetitions(np.array([one[address] for one in estimates]), np.stack([one[address] for one in samples]))
        for address in estimates[0]
        if all(address in one for one in estimates) and all(address in one for one in samples)
    }


def spreads(evaluations: Sequence[Figures], resamples: int, seed: int) -> dict[Address, Spread]:
    """Of every figure of a method with one evaluation a seed, all of the same images. Raises InputError as ``sample``."""
    found = repetitions(evaluations, sample(evaluations, resamples, seed))
    return {address: of_one(one) for address, one in found.items()}
