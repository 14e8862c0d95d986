"""Mixtures of two distributions, beta (L2RM) or normal (NCR), that separate matched and
mismatched pairs by their losses."""

import warnings
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from scipy.special import betaln
from scipy.stats import mannwhitneyu

from vse_pipe.core.console import say, warn

# The authors replace scaled losses of 0 and 1 by this distance from them; a beta density has no
# finite logarithm there.
EDGE = 1e-3
# A mixture needs at least this many losses.
FEWEST = 8
# Pairs of the smallest batch: a loss needs a negative, a masked transport another pair.
SMALLEST_BATCH = 2
# A component with a smaller share of all pairs counts as empty.
EMPTY = 1e-3
_SMALLEST_VARIANCE = 1e-9
# EM ends when a step adds less than this to the log-likelihood.
_GAIN = 0.1
# scikit-learn's ``reg_covar`` in NCR's code.
_ADDED_VARIANCE = 5e-4
# Steps of EM at most.
_LIMIT = 5000

Components = tuple[ndarray, ndarray, ndarray]


@dataclass(frozen=True)
class LossMixture:
    """posterior: of every pair to be clean; doubt: why no split was possible (too few losses, equal
    losses, an empty component), where every posterior is 1, else empty; components: alpha, beta and
    weight of beta distributions, each (2,), the component of the lower mean first."""

    posterior: Float[ndarray, " pairs"]
    doubt: str = ""
    components: Components | None = None


def scaled(losses: Float[ndarray, " pairs"]) -> Float[ndarray, " pairs"]:
    """Losses scaled to [0, 1]; then 0 and 1 are moved inside by ``EDGE``, as in the authors' code.

    Scaled losses between 0 and ``EDGE`` stay, so they are below the smallest.
    """
    losses = np.asarray(losses, dtype=np.float64)
    width = np.ptp(losses) if len(losses) else 0.0
    if not width > 0:
        return np.full(len(losses), 0.5)
    x = (losses - losses.min()) / width
    return np.where(x >= 1, 1 - EDGE, np.where(x <= 0, EDGE, x))


def fit_beta(losses: Float[ndarray, " pairs"]) -> LossMixture:
    """EM with weighted moments as M step, from the best split of the losses in two, while the
    log-likelihood grows by 0.1. A pair of lower loss is never less clean.

    On losses near 0 more steps are worse: moments do not maximise the likelihood, which falls after
    a few steps, and most mismatched pairs become clean. Two beta densities that cross twice would
    make the best pairs mismatched or the worst pairs clean. Losses must be finite.

    Source: L2RM (Han et al., CVPR 2024) Eq. 4 and the text after it; the M step is that of the
    library in the authors' code. Their code starts from a random k-means++ and stops at a gain of
    1e-2 or after 10 iterations; on losses near 0 its results differ completely between starts.
    """
    x = scaled(losses)
    if reason := _indivisible(x):
        return LossMixture(np.ones(len(x)), reason)
    components = beta_components(x)
    if components[2].min() < EMPTY:
        return LossMixture(np.ones(len(x)), "one component has no pairs left")
    is_wide = bool(components[1][0] < components[1][1])
    return LossMixture(_falling(np.asarray(losses), chances(components, x), is_wide), components=components)


def beta_components(x: Float[ndarray, " points"], gain: float = _GAIN) -> Components:
    """alpha, beta and weight, each (2,), of the beta distributions of ``scaled`` losses, the lower
    mean first. EM ends when a step adds less than ``gain`` to the log-likelihood."""
    now = _moments(x, halves(x))
    best, likelihood = now, -np.inf
    for _ in range(_LIMIT):
        joint = log_joint(now, x)
        reached = float(np.logaddexp(joint[0], joint[1]).sum())
        if reached - likelihood < gain:
            now = best
            break
        best, likelihood = now, reached
        now = _moments(x, _shares(joint))
        if now[2].min() < EMPTY:
            break
    order = np.argsort(now[0] / (now[0] + now[1]), kind="stable")
    return now[0][order], now[1][order], now[2][order]


def chances(components: Components, x: Float[ndarray, " points"]) -> Float[ndarray, " points"]:
    """The posterior of the first component."""
    return _shares(log_joint(components, x))[0]


def halves(x: ndarray) -> Float[ndarray, "2 pairs"]:
    """The split in two with the least squared distance to the two means; exact in one dimension."""
    ordered = np.sort(x)
    count = np.arange(1, len(x))
    lower = ordered.cumsum()[:-1]
    # The split with the largest explained sum has the least squared distance.
    explained = lower**2 / count + (ordered.sum() - lower) ** 2 / (len(x) - count)
    explained[ordered[1:] == ordered[:-1]] = -np.inf
    low = (x <= ordered[int(np.argmax(explained))]).astype(np.float64)
    return np.stack([low, 1 - low])


def _moments(x: ndarray, share: ndarray) -> Components:
    """alpha, beta and weight of both components from their weighted mean and variance."""
    total = share.sum(axis=1)
    mean = share @ x / np.maximum(total, 1e-300)
    mean = np.clip(mean, 1e-9, 1 - 1e-9)
    variance = (share * (x - mean[:, None]) ** 2).sum(axis=1) / np.maximum(total, 1e-300)
    # The variance of a beta distribution is positive and below mean (1 - mean).
    variance = np.clip(variance, _SMALLEST_VARIANCE, 0.999 * mean * (1 - mean))
    strength = mean * (1 - mean) / variance - 1
    return mean * strength, (1 - mean) * strength, total / len(x)


def log_joint(components: Components, x: ndarray) -> Float[ndarray, "2 points"]:
    """Logarithms of the weighted densities of both components at scaled losses in (0, 1)."""
    alpha, beta, weight = components
    constant = np.log(np.maximum(weight, 1e-300)) - betaln(alpha, beta)
    return constant[:, None] + np.outer(alpha - 1, np.log(x)) + np.outer(beta - 1, np.log1p(-x))


def _shares(joint: Float[ndarray, "2 points"]) -> Float[ndarray, "2 points"]:
    """Posteriors of both components."""
    difference = joint[0] - joint[1]
    return np.exp([-np.logaddexp(0, -difference), -np.logaddexp(0, difference)])


def _falling(losses: ndarray, posterior: ndarray, wide: bool) -> Float[ndarray, " pairs"]:
    """Posteriors changed so that they never rise with the loss.

    wide: whether the clean density reaches higher losses than the other component. Then rising
    posteriors at high losses are lowered; else low posteriors at low losses are raised. losses:
    unscaled, because scaling swaps the lowest losses.
    """
    order = np.argsort(losses if wide else -losses, kind="stable")
    mended = np.empty_like(posterior)
    running = np.minimum if wide else np.maximum
    mended[order] = running.accumulate(posterior[order])
    return mended


def fit_gaussian(losses: Float[ndarray, " pairs"]) -> LossMixture:
    """EM on losses scaled to [0, 1], until the mean log-likelihood moves by less than 0.01, at most
    ten steps.

    Source: Huang et al., Learning with noisy correspondence for cross-modal matching, NeurIPS 2021,
    Eq. 3, with the options of the authors' call to scikit-learn. Unlike the code, it starts from
    the best split of the losses in two instead of a random k-means. Losses must be finite.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    losses = np.asarray(losses, dtype=np.float64)
    if reason := _indivisible(losses):
        return LossMixture(np.ones(len(losses)), reason)
    x = (losses - losses.min()) / np.ptp(losses)
    is_low = halves(x)[0] > 0
    parts = x[is_low], x[~is_low]
    mixture = GaussianMixture(
        2,
        tol=1e-2,
        max_iter=10,
        reg_covar=_ADDED_VARIANCE,
        weights_init=[len(part) / len(x) for part in parts],
        means_init=[[part.mean()] for part in parts],
        precisions_init=[[[1 / (part.var() + _ADDED_VARIANCE)]] for part in parts],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # ten steps are the method's
        mixture.fit(x[:, None])
    return LossMixture(mixture.predict_proba(x[:, None])[:, mixture.means_[:, 0].argmin()])


def _indivisible(losses: Float[ndarray, " pairs"]) -> str:
    """Why the losses cannot be split in two; empty where they can."""
    if len(losses) < FEWEST:
        return f"fewer than {FEWEST} losses"
    return "" if np.ptp(losses) > 0 else "all losses are equal"


@dataclass(frozen=True)
class Division:
    """The pairs of an epoch that a scheme takes for clean, and the probability of every pair to
    be clean."""

    probability: Float[ndarray, " pairs"]
    clean: Bool[ndarray, " pairs"]

    @property
    def trains(self) -> bool:
        """Whether there are enough clean pairs to train on."""
        return int(self.clean.sum()) >= SMALLEST_BATCH

    @property
    def noisy(self) -> Int[ndarray, " noisy"]:
        """Positions of the other pairs."""
        return np.flatnonzero(~self.clean)


def auc(score: Float[ndarray, " pairs"], is_positive: Bool[ndarray, " pairs"]) -> float | None:
    """The chance that a positive scores higher than a negative, ties counting half; None where
    one kind is missing."""
    if is_positive.all() or not is_positive.any():
        return None
    positives, negatives = score[is_positive], score[~is_positive]
    return float(mannwhitneyu(positives, negatives).statistic / (len(positives) * len(negatives)))


def trust_summary(trust: Float[ndarray, " pairs"], above: float, mismatched: Bool[ndarray, " pairs"] | None) -> str:
    """A message: the number of pairs with trust over ``above``, and the AUC of the mismatched
    pairs, where known."""
    area = None if mismatched is None else auc(-trust, mismatched)
    truth = "" if area is None else f", AUC of the mismatched {area:.3f}"
    return f"{int((trust > above).sum())} of {len(trust)} pairs are taken for matched{truth}"


def report_trust(name: str, mixture: LossMixture, threshold: float, mismatched: Bool[ndarray, " pairs"] | None) -> None:
    """Say ``trust_summary``, and warn where the mixture is doubtful. name: of what is divided."""
    say(f"{name}: {trust_summary(mixture.posterior, threshold, mismatched)}")
    if mixture.doubt:
        warn(f"{name}: the pairs cannot be divided: {mixture.doubt}")
