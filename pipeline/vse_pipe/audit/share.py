"""How many pairs are mismatched, and how probably each one is, from two samples of odds: of the
pairs as they are, and of simulated mismatches.

The pairs are a mixture: a share of mismatches, whose odds are distributed as the simulated ones,
and matched pairs. Put on the scale where simulated odds are standard normal, matched odds are taken
as normal too, ``gap`` lower and with nearly the same spread. This binormal model (Metz, Herman and
Shen, Statistics in Medicine 1998) says how many matched pairs lie among the high odds; a ratio of
tails alone (Garg et al., NeurIPS 2021) counts them as mismatches, which is far too many where the
evidence is weak. Some matched pairs say so little that they score as mismatches do. Nothing in the
pairs tells these odd pairs apart, so the estimate allows for up to ``_ODD`` of them. What the pairs
leave open stays open in the interval."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.stats import norm

# Odds are counted between these quantiles of the simulated ones. Most matched pairs are in the
# first bin, so how far below the others they lie does not matter.
_QUANTILES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# Before the pairs are seen, the density of a share falls as (1 - share)^_FALL, because most pairs
# of a data set are right, and the logarithm of the ratio of spreads is normal with the deviation
# _SPREAD.
_FALL, _SPREAD = 2, 0.1
# Matched pairs that score as mismatches do are at most this share; its density falls likewise.
_ODD = 0.015
# Values of share, gap and spread on the grid, which is laid _ZOOMS times around what is left of it.
_GRID, _ZOOMS, _NEGLIGIBLE = (61, 31, 9), 4, 1e-4
_DRAWS = 200
_TINY = 1e-12
# Normal scores at which probabilities are computed.
_SCORES = np.linspace(-5, 5, 501)


@dataclass(frozen=True)
class Estimate:
    """scoring: draws of the share of pairs that score as mismatches do, rising; shares: of these, the
    mismatches among all pairs; curves: for each draw the probability of a mismatch at each of
    ``_SCORES``, rising; simulated: the odds of simulated mismatches, sorted."""

    scoring: Float[ndarray, " draws"]
    shares: Float[ndarray, " draws"]
    curves: Float[ndarray, "draws scores"]
    simulated: Float[ndarray, " simulated"]

    @property
    def share(self) -> float:
        return float(self.shares.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """Of the share, 95 %."""
        low, high = np.quantile(self.shares, [0.025, 0.975]).tolist()
        return low, high

    def probability(self, odds: Float[ndarray, " pairs"]) -> Float[ndarray, " pairs"]:
        return self.curves.mean(axis=0)[self._places(odds)]

    def number(self, odds: Float[ndarray, " pairs"]) -> list[int]:
        """The 95 % interval of the number of mismatches among some pairs with these odds. Its mean
        is the sum of their probabilities."""
        counts = np.bincount(self._places(odds), minlength=len(_SCORES)).astype(float)
        deviations = np.sqrt((self.curves * (1 - self.curves)) @ counts)
        numbers = self.curves @ counts + deviations * np.random.default_rng(0).standard_normal(_DRAWS)
        return np.quantile(numbers.clip(0, len(odds)), [0.025, 0.975]).round().astype(int).tolist()

    def _places(self, odds: ndarray) -> ndarray:
        lower, upper = (np.searchsorted(self.simulated, odds, side) for side in ("left", "right"))
        least = 0.5 / len(self.simulated)
        scores = norm.ppf(((lower + upper) / (2 * len(self.simulated))).clip(least, 1 - least))
        return np.searchsorted(_SCORES, scores).clip(0, len(_SCORES) - 1)


def estimate(
    pairs: Float[ndarray, " pairs"],
    simulated: Float[ndarray, " simulated"],
    size: int,
    scoring: Float[ndarray, " draws"] | None = None,
) -> Estimate:
    """pairs, simulated: log-odds; size: the number of independent pairs that vary as much; scoring:
    of another estimate, by other odds of the same pairs, that holds here too."""
    axes, weights = _posterior(pairs, simulated, size, scoring)
    cumulated = weights.ravel().cumsum()
    drawn = np.searchsorted(cumulated, (np.arange(_DRAWS) + 0.5) / _DRAWS * cumulated[-1])
    places = np.unravel_index(drawn, weights.shape)
    share, gap, spread = (axis[rows, None] for axis, rows in zip(axes, places, strict=True))
    curves = _mixed(share, norm.pdf(_SCORES), norm.pdf(_SCORES, -gap, spread))
    # How matched odds are spread in the first bin is not known; unequal spreads turn a curve at its
    # end.
    first = norm.ppf((simulated <= np.quantile(simulated, _QUANTILES[0])).mean())
    curves[:, first > _SCORES] = _mixed(share, norm.cdf(first), norm.cdf((first + gap) / spread))
    curves = np.maximum.accumulate(curves, axis=1)
    odd = _ODD * np.random.default_rng(1).beta(1, 1 + _FALL, _DRAWS)
    shares = (share[:, 0] - odd).clip(0)
    curves *= shares[:, None] / share.clip(_TINY)
    return Estimate(share[:, 0], shares, curves, np.sort(simulated))


def _mixed(share: ndarray, mismatched: ndarray, matched: ndarray) -> ndarray:
    """The probability of a mismatch by both densities."""
    return share * mismatched / np.maximum(share * mismatched + (1 - share) * matched, _TINY)


def _posterior(pairs: ndarray, simulated: ndarray, size: int, scoring: ndarray | None) -> tuple[list[ndarray], ndarray]:
    """Values of share, gap and spread, and the weight of each combination."""
    bins = np.unique(np.quantile(simulated, _QUANTILES))
    of_pairs, chance = (
        np.bincount(np.searchsorted(bins, odds), minlength=len(bins) + 1) / len(odds) for odds in (pairs, simulated)
    )
    edges = norm.ppf(chance.cumsum()[:-1].clip(1e-6, 1 - 1e-6))
    lows, highs = np.array([0, 0, -3 * _SPREAD]), np.array([1, 6, 3 * _SPREAD])
    for _ in range(_ZOOMS):
        axes = [np.linspace(*ends) for ends in zip(lows, highs, _GRID, strict=True)]
        axes[0] = axes[0] if scoring is None else scoring
        share, gap, spread = np.ix_(*axes[:2], np.exp(axes[2]))
        below = norm.cdf((edges + gap[0, ..., None]) / spread[0, ..., None])
        matched = np.diff(below, axis=-1, prepend=0, append=1)
        mixed = share[..., None] * chance + (1 - share[..., None]) * matched
        logs = size * (np.log(mixed.clip(_TINY)) @ of_pairs) - 0.5 * (np.log(spread) / _SPREAD) ** 2
        logs += _FALL * np.log((1 - share).clip(_TINY))
        weights = np.exp(logs - logs.max(axis=None if scoring is None else (1, 2), keepdims=True))
        for axis, values in enumerate(axes):
            likely = np.flatnonzero(weights.max(axis=tuple({0, 1, 2} - {axis})) > _NEGLIGIBLE)
            step = values[1] - values[0]
            lows[axis] = max(lows[axis], values[likely[0]] - step)
            highs[axis] = min(highs[axis], values[likely[-1]] + step)
    if scoring is not None:
        weights /= weights.sum(axis=(1, 2), keepdims=True)
    return [share.ravel(), gap.ravel(), spread.ravel()], weights
