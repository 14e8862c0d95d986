"""Two beta distributions on the losses of pairs: those of the lower mean are taken for matched (L2RM, CVPR 2024)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy.special import betaln
from scipy.stats import rankdata

# What the authors put in the place of a scaled loss of exactly 0 or 1, where a beta density has no finite logarithm.
EDGE = 1e-3
# Fewer losses than this say nothing about two distributions.
FEWEST = 8
# A component with less than this share of all pairs has emptied.
EMPTY = 1e-3
_SMALLEST_VARIANCE = 1e-9
# No parameter moves by more than this share of itself: EM has ended.
_SETTLED = 1e-9


@dataclass(frozen=True)
class BetaMixture:
    """alpha, beta, weight: (2,), the component of the lower mean first; posterior: (pairs,) of the clean component.

    doubts: why the split is not to be trusted, in words; none when it is. Where there is nothing to split (too few losses,
    all of them equal, a component without pairs) every posterior is 1.
    """

    alpha: Float[ndarray, " 2"]
    beta: Float[ndarray, " 2"]
    weight: Float[ndarray, " 2"]
    posterior: Float[ndarray, " pairs"]
    converged: bool
    iterations: int
    doubts: tuple[str, ...] = ()

    @property
    def mean(self) -> Float[ndarray, " 2"]:
        """Of each component, on the scaled losses."""
        return self.alpha / (self.alpha + self.beta)

    def density(self, scaled: Float[ndarray, " points"]) -> Float[ndarray, "2 points"]:
        """Weighted densities of both components at scaled losses inside of (0, 1): what a histogram is drawn with."""
        return np.exp(_beta_log_joint(self.alpha, self.beta, self.weight, np.log(scaled), np.log1p(-scaled)))


def scaled(losses: Float[ndarray, " pairs"]) -> Float[ndarray, " pairs"]:
    """Losses on (0, 1): the smallest at 0, the largest at 1, and these two moved inside by ``EDGE``, as the authors do.

    What lies between 0 and ``EDGE`` stays there, below the smallest.
    """
    losses = np.asarray(losses, dtype=np.float64)
    width = np.ptp(losses) if len(losses) else 0.0
    if not width > 0:
        return np.full(len(losses), 0.5)
    x = (losses - losses.min()) / width
    return np.where(x >= 1, 1 - EDGE, np.where(x <= 0, EDGE, x))


def fit_beta(
    losses: Float[ndarray, " pairs"],
    clean: Literal["lower_mean", "code"] = "lower_mean",
    monotone: bool = True,
    gain: float | None = 0.1,
    max_iterations: int = 5000,
) -> BetaMixture:
    """EM from the best split of the losses in two, the M step by weighted moments, while the log-likelihood of all losses
    gains ``gain``.

    gain: None goes on to where no parameter moves by more than 1e-9 of itself. On losses that pile up near 0 that is a worse
    place: moments are no maximum of the likelihood, it falls after a few steps, and most mismatched pairs come out clean.
    clean: the component of the lower ``mean`` (the paper: mismatched pairs have the higher one), or the one with the larger
    posterior at 0.001 (the authors' ``code``); they differ only where alpha is below 1. monotone: the lower the loss,
    the cleaner the pair. Two beta densities can cross twice, and then the formula calls the very best pairs mismatched, or
    the very worst ones clean. Losses must be finite.

    Source: L2RM (Han et al., CVPR 2024) Eq. 4 and what follows it; the M step is that of the library its code uses. Other
    than the code: it starts from k-means++ at random, and stops at a gain of 1e-2 or after 10 iterations first; on
    piled-up losses its starts disagree completely.
    """
    x = scaled(losses)
    if len(x) < FEWEST or np.ptp(x) == 0:
        reason = f"fewer than {FEWEST} losses" if len(x) < FEWEST else "all losses are equal"
        return _undivided(len(x), reason)
    best, converged, iterations = _em(x, gain, max_iterations)
    if best[2].min() < EMPTY:
        return _undivided(len(x), "one component has no pairs left")
    return _finished(x, np.asarray(losses), best, clean, monotone, converged, iterations)


def _em(x: ndarray, gain: float | None, limit: int) -> tuple[tuple, bool, int]:
    """alpha, beta and weight of both components, whether they had settled, and after how many iterations."""
    log_x, log_rest = np.log(x), np.log1p(-x)
    now = _beta_moments(x, halves(x))
    best, likelihood = now, -np.inf
    for iterations in range(limit):
        joint = _beta_log_joint(*now, log_x, log_rest)
        reached = float(np.logaddexp(joint[0], joint[1]).sum())
        if gain is not None and reached - likelihood < gain:
            return best, True, iterations
        best, likelihood = now, reached
        now = _beta_moments(x, _beta_shares(joint))
        if now[2].min() < EMPTY:
            return now, False, iterations
        moved = [np.abs(new - old).max() / np.abs(old).max() for new, old in zip(now, best, strict=True)]
        if max(moved) < _SETTLED:
            return now, True, iterations
    return now, False, limit


def _finished(
    x: ndarray, losses: ndarray, parameters: tuple, clean: str, monotone: bool, converged: bool, iterations: int
) -> BetaMixture:
    alpha, beta, weight = parameters
    order = np.argsort(alpha / (alpha + beta), kind="stable")
    alpha, beta, weight = alpha[order], beta[order], weight[order]
    place = 0
    if clean == "code":
        place = int(np.argmax(_beta_log_joint(alpha, beta, weight, np.log([EDGE]), np.log1p([-EDGE]))[:, 0]))
    posterior = _beta_shares(_beta_log_joint(alpha, beta, weight, np.log(x), np.log1p(-x)))[place]
    mended = _falling(losses, posterior, wide=bool(beta[place] < beta[1 - place]))
    doubts = []
    if not converged:
        doubts.append(f"the mixture still moved after {iterations} iterations")
    wrong = int(((mended > 0.5) != (posterior > 0.5)).sum())
    if wrong:
        doubts.append(f"the two densities cross twice; by their ratio alone {wrong} pairs would be misplaced")
    if not (mended > 0.5).any():
        doubts.append("no pair is clean")
    return BetaMixture(alpha, beta, weight, mended if monotone else posterior, converged, iterations, tuple(doubts))


def _undivided(pairs: int, reason: str) -> BetaMixture:
    nothing = np.full(2, np.nan)
    return BetaMixture(nothing, nothing, np.array([1.0, 0.0]), np.ones(pairs), False, 0, (reason,))


def halves(x: ndarray) -> Float[ndarray, "2 pairs"]:
    """The split in two with the least squared distance to the two means: exact, as losses lie on a line."""
    ordered = np.sort(x)
    count = np.arange(1, len(x))
    left = ordered.cumsum()[:-1]
    # The squared distances fall by what the two sums explain.
    explained = left**2 / count + (ordered.sum() - left) ** 2 / (len(x) - count)
    explained[ordered[1:] == ordered[:-1]] = -np.inf
    last = ordered[int(np.argmax(explained))]
    low = (x <= last).astype(np.float64)
    return np.stack([low, 1 - low])


def _beta_moments(x: ndarray, share: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """alpha, beta and weight of both components from their weighted mean and variance."""
    total = share.sum(axis=1)
    mean = share @ x / np.maximum(total, 1e-300)
    mean = np.clip(mean, 1e-9, 1 - 1e-9)
    variance = (share * (x - mean[:, None]) ** 2).sum(axis=1) / np.maximum(total, 1e-300)
    # No beta distribution has a variance of mean (1 - mean) or more, and a point has none.
    variance = np.clip(variance, _SMALLEST_VARIANCE, 0.999 * mean * (1 - mean))
    strength = mean * (1 - mean) / variance - 1
    return mean * strength, (1 - mean) * strength, total / len(x)


def _beta_log_joint(
    alpha: ndarray, beta: ndarray, weight: ndarray, log_x: ndarray, log_rest: ndarray
) -> Float[ndarray, "2 points"]:
    constant = np.log(np.maximum(weight, 1e-300)) - betaln(alpha, beta)
    return constant[:, None] + np.outer(alpha - 1, log_x) + np.outer(beta - 1, log_rest)


def _beta_shares(joint: Float[ndarray, "2 points"]) -> Float[ndarray, "2 points"]:
    """Posteriors of both components."""
    difference = joint[0] - joint[1]
    return np.exp([-np.logaddexp(0, -difference), -np.logaddexp(0, difference)])


def _falling(losses: ndarray, posterior: ndarray, wide: bool) -> Float[ndarray, " pairs"]:
    """Posteriors that do not rise with the loss; as they are where they do not.

    wide: the clean density reaches farther up than the other: posteriors that come back at high losses are lowered. Else
    those that sink at low losses are raised. By the losses themselves: scaling swaps the lowest.
    """
    order = np.argsort(losses if wide else -losses, kind="stable")
    mended = np.empty_like(posterior)
    running = np.minimum if wide else np.maximum
    mended[order] = running.accumulate(posterior[order])
    return mended


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


def fit_gaussian(losses: Float[ndarray, " pairs"]) -> GaussianMixture:
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


def auc(score: Float[ndarray, " pairs"], is_positive: Bool[ndarray, " pairs"]) -> float | None:
    """The chance that a wanted pair scores higher than another, ties counting half; None where one kind is missing."""
    positives = int(is_positive.sum())
    negatives = len(is_positive) - positives
    if not positives or not negatives:
        return None
    above = rankdata(score)[is_positive].sum() - positives * (positives + 1) / 2
    return float(above / (positives * negatives))


def against_truth(
    posterior: Float[ndarray, " pairs"], clean: Bool[ndarray, " pairs"], mismatched: Bool[ndarray, " pairs"]
) -> dict[str, float | None]:
    """Share of mismatched pairs, AUC of ``1 - posterior`` for them, precision and recall of ``~clean``.

    Precision is None where no pair is taken for mismatched, AUC and recall where none is.
    """
    rejected, correct = int((~clean).sum()), int((~clean & mismatched).sum())
    total = int(mismatched.sum())
    return {
        "mismatched": float(mismatched.mean()),
        "auc": auc(-posterior, mismatched),
        "precision": correct / rejected if rejected else None,
        "recall": correct / total if total else None,
    }


def trust_summary(trust: Float[ndarray, " pairs"], above: float, mismatched: Bool[ndarray, " pairs"] | None) -> str:
    """How many pairs are trusted more than ``above``, and how well trust tells the mismatched ones, where they are known."""
    area = None if mismatched is None else auc(-trust, mismatched)
    truth = "" if area is None else f", AUC of the mismatched {area:.3f}"
    return f"{int((trust > above).sum())} of {len(trust)} pairs are taken for matched{truth}"
