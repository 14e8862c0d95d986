"""Probability of a match from a score, and the calibration of such probabilities.
A curve is fitted on validation queries and measured on other queries. The pairs are each query with its best CANDIDATES
items under the criterion. A pair matches where the data set says that the item is correct; true matches that the data
set does not list count as wrong.
Isotonic: Zadrozny and Elkan, Transforming classifier scores into accurate multiclass probability estimates, KDD 2002.
Platt: Probabilistic outputs for support vector machines, 1999, with his targets. Expected calibration error and
reliability diagram: Guo et al., On calibration of modern neural networks, ICML 2017, here for the probability of one
event instead of the likeliest class."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from vse_pipe.core.seeds import generator
from vse_pipe.ranking.intervals import interval
from vse_pipe.ranking.recall import Truth
from vse_pipe.ranking.scores import Scores, top_k

ISOTONIC, PLATT = "isotonic", "platt"
BINS, CANDIDATES = 10, 10
_DIGITS = 6
# Draws in memory at once.
_BLOCK = 64
Values = Float[np.ndarray, " pairs"]
Matched = Bool[np.ndarray, " pairs"]


@dataclass(frozen=True)
class Curve:
    """Non-decreasing probabilities of scores. knots: for ISOTONIC (2, knots) scores and probabilities, linear between
    them and constant beyond; for PLATT (2, 1), a >= 0 and b of ``1 / (1 + exp(-(a s + b)))``."""

    method: str
    knots: Float[np.ndarray, "2 knots"]

    def __call__(self, scores: Float[np.ndarray, " items"]) -> Float[np.ndarray, " items"]:
        first, second = self.knots
        if self.method == ISOTONIC:
            return np.interp(scores, first, second)
        return 0.5 + 0.5 * np.tanh(0.5 * (first[0] * scores.astype(np.float64) + second[0]))


def fitted(method: str, scores: Values, matched: Matched) -> Curve:
    """method: ISOTONIC or PLATT. Where larger scores match less often than smaller ones, the curve is constant."""
    values = scores.astype(np.float64)
    return _isotonic(values, matched) if method == ISOTONIC else _platt(values, matched)


def _isotonic(scores: Values, matched: Matched) -> Curve:
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(scores, matched.astype(np.float64))
    return Curve(ISOTONIC, np.stack([model.X_thresholds_, model.y_thresholds_]))


def _platt(scores: Values, matched: Matched) -> Curve:
    from sklearn.linear_model import LogisticRegression

    hits = int(matched.sum())
    # Platt's targets, between 0 and 1: each pair enters as a match and as a mismatch, weighted by the target.
    share = np.where(matched, (hits + 1) / (hits + 2), 1 / (len(matched) - hits + 2))
    mean, spread = float(scores.mean()), float(scores.std())
    slope, offset = 0.0, float(np.log(share.mean() / (1 - share.mean())))
    if spread > 0:
        both = np.concatenate([scores, scores])[:, None]
        labels = np.repeat([1, 0], len(scores))
        model = LogisticRegression(C=np.inf).fit((both - mean) / spread, labels, np.concatenate([share, 1 - share]))
        if model.coef_[0, 0] > 0:
            slope, offset = float(model.coef_[0, 0]), float(model.intercept_[0])
    scaled = slope / spread if spread > 0 else 0.0
    return Curve(PLATT, np.array([[scaled], [offset - scaled * mean]]))


def reliability(
    probabilities: Values,
    matched: Matched,
    clusters: Int64[np.ndarray, " pairs"],
    resamples: int = 0,
    rng: np.random.Generator | None = None,
) -> dict:
    """Figures of metrics.json from BINS bins of equal width. clusters: that are drawn together.

    ece: distances of the bins' mean probabilities and shares of matches, weighted by pairs; brier:
    mean squared distance of probability and event. ece_interval: percentiles of bootstrap draws of
    clusters, moved so that their median is the estimate. A draw repeats pairs and therefore lies
    further from the diagonal than a new set of pairs would."""
    places = np.minimum((probabilities * BINS).astype(np.int64), BINS - 1)
    owners = np.unique(clusters, return_inverse=True)[1]
    size = int(owners.max()) + 1
    gaps = np.bincount(owners * BINS + places, probabilities - matched, size * BINS)
    gaps = gaps.reshape(size, BINS)
    ece = float(np.abs(gaps.sum(axis=0)).sum() / len(places))
    report = {
        "ece": round(ece, _DIGITS),
        "brier": round(float(np.mean((probabilities - matched) ** 2)), _DIGITS),
        "bins": [_bin(place, probabilities, matched, places == place) for place in range(BINS)],
    }
    if rng:
        pairs, draws = np.bincount(owners, minlength=size).astype(np.float64), np.empty(resamples)
        for start in range(0, resamples, _BLOCK):
            count = min(_BLOCK, resamples - start)
            drawn = rng.multinomial(size, np.full(size, 1 / size), count).astype(np.float64)
            errors = np.abs(drawn @ gaps).sum(axis=1) / (drawn @ pairs)
            draws[start : start + count] = errors
        ends = interval(draws - np.median(draws) + ece)
        report["ece_interval"] = [round(min(max(end, 0.0), 1.0), _DIGITS) for end in ends]
    return report


def _bin(place: int, probabilities: Values, matched: Matched, inside: Matched) -> dict:
    entry = {"from": place / BINS, "to": (place + 1) / BINS, "pairs": int(inside.sum())}
    if entry["pairs"]:
        shares = {"probability": probabilities[inside], "matched": matched[inside]}
        entry |= {name: round(float(values.mean()), _DIGITS) for name, values in shares.items()}
    return entry


@dataclass(frozen=True)
class Candidates:
    """scores: under the criterion; matched: whether the pair matches; owners: its query; queries: their number."""

    scores: Float[np.ndarray, " pairs"]
    matched: Bool[np.ndarray, " pairs"]
    owners: Int64[np.ndarray, " pairs"]
    queries: int

    @property
    def about(self) -> dict:
        return {
            "queries": self.queries,
            "pairs": len(self.scores),
            "base_rate": round(float(self.matched.mean()), _DIGITS),
        }


def candidates(sides: Sequence[tuple[Scores, Truth]]) -> Candidates:
    """Pairs of the queries that have a correct item, of several folds together. sides: the scores under the criterion
    and the correct items of each fold."""
    scores, matched, owners, queries = [], [], [], 0
    for of_fold, truth in sides:
        strips = [best for _, best in of_fold.over_strips(partial(_best, of_fold))]
        values, columns = (torch.cat(parts).cpu().numpy() for parts in zip(*strips, strict=True))
        rows = truth.judged()
        scores.append(values[rows].astype(np.float64).ravel())
        matched.append(truth.holds(np.repeat(rows, values.shape[1]), columns[rows].ravel()))
        owners.append(np.repeat(np.arange(queries, queries + len(rows)), values.shape[1]))
        queries += len(rows)
    return Candidates(np.concatenate(scores), np.concatenate(matched), np.concatenate(owners), queries)


def _best(scores: Scores, rows: slice) -> tuple[Tensor, Tensor]:
    return top_k(scores.strip(rows), CANDIDATES)


def measured(
    method: str,
    validation: Candidates,
    test: Candidates,
    clusters: np.ndarray,
    resamples: int,
    seed: int,
) -> dict:
    """An entry of metrics.json: a curve fitted on ``validation``, measured on ``test``. clusters: of
    each test query."""
    probabilities = fitted(method, validation.scores, validation.matched)(test.scores)
    rng = generator(seed, "calibration") if resamples else None
    return {
        "method": method,
        "candidates": CANDIDATES,
        "fitted": validation.about,
        "measured": test.about,
        **reliability(probabilities, test.matched, clusters[test.owners], resamples, rng),
    }
