"""How many pairs are mismatched, and how probably each one is, from two samples of odds: of the
pairs as they are, and of simulated mismatches.

The pairs are a mixture: a share of mismatches, whose odds are distributed as the simulated ones,
and matched pairs. Put on the scale where simulated odds are standard normal, matched odds are taken
as normal too, ``gap`` lower and with nearly the same spread. This binormal model (Metz, Herman and
Shen, Statistics in Medicine 1998) says how many matched pairs lie among the high odds; a ratio of
tails alone (Garg et al., NeurIPS 2021) counts them as mismatches, which is far too many where the
evidence is weak. What the pairs leave open stays open in the interval."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.stats import norm
from sklearn.linear_model import Ridge
from sklearn.model_selection import PredefinedSplit, cross_val_predict

# Odds are counted between these quantiles of the simulated ones. Most matched pairs are in the
# first bin, so how far below the others they lie does not matter.
_QUANTILES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# Before the pairs are seen, the density of a share falls as (1 - share)^_FALL, because most pairs
# of a data set are right, and the logarithm of the ratio of spreads is normal with the deviation
# _SPREAD.
_FALL, _SPREAD = 2, 0.1
# Perhaps some matched pairs score like mismatches, because a caption is odd, up to a share of _ODD
# of all pairs. The odds do not tell these apart; of Flickr8k as it is about 1 % of the pairs score
# so.
_ODD = 0.015
_FEWEST = 1000
# Values of share, gap and spread on the grid, which is laid _ZOOMS times around what is left of it.
_GRID, _ZOOMS, _NEGLIGIBLE = (61, 31, 9), 4, 1e-4
_DRAWS = 200
_TINY = 1e-12
# Normal scores at which probabilities are computed.
_SCORES = np.linspace(-5, 5, 501)


@dataclass(frozen=True)
class Estimate:
    """share: of mismatches among all pairs, with its 95 % interval; curves: draws of the
    probability of a mismatch at each of ``_SCORES``, rising; simulated: the odds of simulated
    mismatches, sorted."""

    share: float
    interval: tuple[float, float]
    curves: Float[ndarray, "draws scores"]
    simulated: Float[ndarray, " simulated"]

    def probability(self, odds: Float[ndarray, " pairs"]) -> Float[ndarray, " pairs"]:
        return self.curves.mean(axis=0)[self._places(odds)]

    def number(self, odds: Float[ndarray, " pairs"]) -> tuple[float, float]:
        """The 95 % interval of the number of mismatches among some pairs with these odds. Its mean
        is the sum of their probabilities."""
        counts = np.bincount(self._places(odds), minlength=len(_SCORES)).astype(float)
        deviations = np.sqrt((self.curves * (1 - self.curves)) @ counts)
        numbers = self.curves @ counts + deviations * np.random.default_rng(0).standard_normal(_DRAWS)
        low, high = np.quantile(numbers, [0.025, 0.975]).tolist()
        return max(low, 0.0), min(high, float(len(odds)))

    def _places(self, odds: ndarray) -> ndarray:
        lower, upper = (np.searchsorted(self.simulated, odds, side) for side in ("left", "right"))
        least = 0.5 / len(self.simulated)
        scores = norm.ppf(((lower + upper) / (2 * len(self.simulated))).clip(least, 1 - least))
        return np.searchsorted(_SCORES, scores).clip(0, len(_SCORES) - 1)


@dataclass(frozen=True)
class Odds:
    """pairs, simulated: log-odds; owners, simulated_owners: the image of each; verdicts: 1 for a
    pair that is known to be matched, -1 for a mismatched one, else 0."""

    pairs: Float[ndarray, " pairs"]
    simulated: Float[ndarray, " simulated"]
    owners: Int[ndarray, " pairs"]
    simulated_owners: Int[ndarray, " simulated"]
    verdicts: Int[ndarray, " pairs"]

    def of_pairs(self, pairs: ndarray, simulated: ndarray) -> "Odds":
        """Those of some pairs and of some simulated mismatches."""
        chosen = self.pairs[pairs], self.simulated[simulated], self.owners[pairs], self.simulated_owners[simulated]
        return Odds(*chosen, self.verdicts[pairs])


def telling(vectors: Float[ndarray, "pairs d"], odds: Float[ndarray, " pairs"], folds: ndarray) -> ndarray:
    """bool: the fifth of the pairs, and _FEWEST at least, whose vectors make low odds most
    probable, by a ridge regression on the pairs of other folds.

    Where a caption says little, or the vectors do not show what it says, a matched pair scores like
    a mismatched one."""
    expected = cross_val_predict(Ridge(len(odds) / 50), vectors, odds, cv=PredefinedSplit(folds))
    # A fold with more mismatches than the others is expected to have fewer, so folds are not
    # compared with each other.
    rank = pd.Series(expected).groupby(folds).rank(method="first", pct=True)
    return (rank <= max(0.2, _FEWEST / len(odds))).to_numpy()


def estimate(of_share: Odds, of_pairs: Odds) -> Estimate:
    """The share by the odds ``of_share``, and the probabilities of ``of_pairs``."""
    shares, _, _, weights = _posterior(of_share)
    marginal = weights.sum(axis=(1, 2))
    _, gaps, spreads, weights = _posterior(of_pairs, shares)
    weights *= (marginal / np.maximum(weights.sum(axis=(1, 2)), _TINY))[:, None, None]
    cumulated = weights.ravel().cumsum()
    drawn = np.searchsorted(cumulated, (np.arange(_DRAWS) + 0.5) / _DRAWS * cumulated[-1])
    places = np.unravel_index(drawn, weights.shape)
    alike, gap, spread = (axis[rows, None] for axis, rows in zip((shares, gaps, spreads), places, strict=True))
    odd = np.random.default_rng(0).permutation(np.linspace(-_ODD, _ODD, _DRAWS)).clip(0)[:, None]
    share = (alike - odd).clip(0)
    curves = _mixed(alike, norm.pdf(_SCORES), norm.pdf(_SCORES, -gap, spread))
    # How matched odds are spread in the first bin is not known; unequal spreads turn a curve at its
    # end.
    first = norm.ppf((of_pairs.simulated <= np.quantile(of_pairs.simulated, _QUANTILES[0])).mean())
    curves[:, first > _SCORES] = _mixed(alike, norm.cdf(first), norm.cdf((first + gap) / spread))
    curves = np.maximum.accumulate(curves, axis=1) * share / alike.clip(_TINY)
    low, high = np.quantile(share, [0.025, 0.975]).tolist()
    return Estimate(float(share.mean()), (low, high), curves, np.sort(of_pairs.simulated))


def _mixed(share: ndarray, mismatched: ndarray, matched: ndarray) -> ndarray:
    """The probability of a mismatch by both densities."""
    return share * mismatched / np.maximum(share * mismatched + (1 - share) * matched, _TINY)


def _posterior(odds: Odds, shares: ndarray | None = None) -> tuple[ndarray, ndarray, ndarray, ndarray]:
    """Values of share, gap and spread, and the weight of each combination. shares: of which none is
    more probable than another before the pairs are seen; None: those that the pairs leave."""
    unknown, matched, mismatched, simulated, size = _counted(odds)
    edges = norm.ppf(simulated.cumsum()[:-1].clip(1e-6, 1 - 1e-6))
    lows, highs = np.array([0, 0, -3 * _SPREAD]), np.array([1, 6, 3 * _SPREAD])
    for _ in range(_ZOOMS):
        axes = [np.linspace(*ends) for ends in zip(lows, highs, _GRID, strict=True)]
        share, gap, spread = np.ix_(axes[0] if shares is None else shares, axes[1], np.exp(axes[2]))
        right = (1 - share).clip(_TINY)[..., None]
        below = norm.cdf((edges + gap[0, ..., None]) / spread[0, ..., None])
        within = right * np.diff(below, axis=-1, prepend=0, append=1).clip(_TINY)
        wrong = (share[..., None] * simulated).clip(_TINY)
        logs = size * (np.log(wrong + within) @ unknown + np.log(within) @ matched + np.log(wrong) @ mismatched)
        logs -= 0.5 * (np.log(spread) / _SPREAD) ** 2
        if shares is None:
            logs += _FALL * np.log(right[..., 0])
        weights = np.exp(logs - logs.max())
        for axis, values in enumerate(axes):
            likely = np.flatnonzero(weights.max(axis=tuple({0, 1, 2} - {axis})) > _NEGLIGIBLE)
            step = values[1] - values[0]
            lows[axis] = max(lows[axis], values[likely[0]] - step)
            highs[axis] = min(highs[axis], values[likely[-1]] + step)
    return share.ravel(), gap.ravel(), spread.ravel(), weights / weights.sum()


def _counted(odds: Odds) -> tuple[ndarray, ndarray, ndarray, ndarray, float]:
    """Shares of the bins: of pairs whose truth is unknown, that are known to be matched and to be
    mismatched, all three among all pairs, and of simulated mismatches. Then the number of pairs
    that would vary as much if none had an image in common and simulated mismatches had no chance of
    their own."""
    edges = np.unique(np.quantile(odds.simulated, _QUANTILES))
    bins, images = len(edges) + 1, int(odds.owners.max()) + 1

    def table(owners: ndarray, values: ndarray) -> ndarray:
        places = owners * bins + np.searchsorted(edges, values)
        counts = np.bincount(places, minlength=images * bins).reshape(images, bins)
        return counts / len(values)

    pairs, simulated = table(odds.owners, odds.pairs), table(odds.simulated_owners, odds.simulated)
    shares, chance = pairs.sum(axis=0), simulated.sum(axis=0)
    errors = pairs - pairs.sum(axis=1, keepdims=True) * shares
    errors -= simulated - simulated.sum(axis=1, keepdims=True) * chance
    sizes = len(odds.pairs), len(odds.simulated)
    alone = sum((part * (1 - part)).sum() / size for part, size in zip((shares, chance), sizes, strict=True))
    size = alone / max((errors**2).sum(), _TINY) / sum(1 / size for size in sizes)
    places = np.searchsorted(edges, odds.pairs)
    unknown, matched, mismatched = (
        np.bincount(places[odds.verdicts == value], minlength=bins) / len(places) for value in (0, 1, -1)
    )
    return unknown, matched, mismatched, chance, size
