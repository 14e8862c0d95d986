"""Two normal distributions on the losses of pairs: those of the lower mean are taken for matched (NCR, NeurIPS 2021)."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from vse_pipe.train.engine.mixture.beta import FEWEST, halves

# The options of the authors' call to scikit-learn, whose EM this is.
_ITERATIONS = 10
_TOLERANCE = 1e-2
_ADDED_VARIANCE = 5e-4


@dataclass(frozen=True)
class GaussianMixture:
    """mean, variance, weight: (2,) on the scaled losses, the component of the lower mean first; posterior: (pairs,) of that
    component.

    doubt: why there is nothing to split, in words; every posterior is then 1.
    """

    mean: Float[ndarray, " 2"]
    variance: Float[ndarray, " 2"]
    weight: Float[ndarray, " 2"]
    posterior: Float[ndarray, " pairs"]
    doubt: str | None = None


def fit(losses: Float[ndarray, " pairs"]) -> GaussianMixture:
    """EM on losses scaled to [0, 1], at most ten steps, until the mean log-likelihood moves by less than 0.01.

    As in the authors' code: 5e-4 is added to both variances, and after ten steps the mixture is taken as it is. Other than
    there it starts from the best split of the losses in two, which their k-means seeks from a random start. Losses must
    be finite.

    Source: Huang et al., Learning with noisy correspondence for cross-modal matching, NeurIPS 2021, Eq. 3.
    """
    losses = np.asarray(losses, dtype=np.float64)
    width = np.ptp(losses) if len(losses) else 0.0
    if len(losses) < FEWEST or not width > 0:
        reason = f"fewer than {FEWEST} losses" if len(losses) < FEWEST else "all losses are equal"
        nothing = np.full(2, np.nan)
        return GaussianMixture(nothing, nothing, np.array([1.0, 0.0]), np.ones(len(losses)), reason)
    x = (losses - losses.min()) / width
    now, before = _moments(x, halves(x)), -np.inf
    for _ in range(_ITERATIONS):
        joint = _log_joint(x, *now)
        reached = float(np.logaddexp(joint[0], joint[1]).mean())
        now = _moments(x, _shares(joint))
        if abs(reached - before) < _TOLERANCE:
            break
        before = reached
    order = np.argsort(now[0], kind="stable")
    mean, variance, weight = (part[order] for part in now)
    return GaussianMixture(mean, variance, weight, _shares(_log_joint(x, mean, variance, weight))[0])


def _moments(x: ndarray, share: Float[ndarray, "2 pairs"]) -> tuple[ndarray, ndarray, ndarray]:
    """Mean, variance and weight of both components."""
    total = np.maximum(share.sum(axis=1), 1e-300)
    mean = share @ x / total
    variance = (share * (x - mean[:, None]) ** 2).sum(axis=1) / total + _ADDED_VARIANCE
    return mean, variance, total / len(x)


def _log_joint(x: ndarray, mean: ndarray, variance: ndarray, weight: ndarray) -> Float[ndarray, "2 pairs"]:
    distance = (x - mean[:, None]) ** 2 / variance[:, None]
    return np.log(weight)[:, None] - (np.log(2 * np.pi * variance)[:, None] + distance) / 2


def _shares(joint: Float[ndarray, "2 pairs"]) -> Float[ndarray, "2 pairs"]:
    return np.exp(joint - np.logaddexp(joint[0], joint[1]))
