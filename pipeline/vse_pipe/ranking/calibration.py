"""Probability of a match from a score, and the calibration of such probabilities.

A curve is fitted on validation queries and measured on other queries. The pairs are each query with
its best CANDIDATES items under the criterion. A pair matches where the data set says that the item
is correct; true matches that the data set does not list count as wrong.

Isotonic regression: Zadrozny and Elkan, Transforming classifier scores into accurate multiclass
probability estimates, KDD 2002. Expected calibration error and reliability diagram: Guo et al., On
calibration of modern neural networks, ICML 2017, here for the probability of one event instead of
the likeliest class."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64

from vse_pipe.core.seeds import generator
from vse_pipe.ranking.intervals import interval
from vse_pipe.ranking.recall import Truth
from vse_pipe.ranking.scores import Scores, top_k

METHOD, BINS, CANDIDATES = "isotonic", 10, 10
_DIGITS = 6
Values = Float[np.ndarray, " pairs"]
Matched = Bool[np.ndarray, " pairs"]


def fitted(scores: Values, matched: Matched) -> Float[np.ndarray, "2 knots"]:
    """Scores and their probabilities, both non-decreasing: linear between the knots, constant
    beyond. Where larger scores match less often than smaller ones, the curve is constant."""
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(y_min=0, y_max=1).fit(scores.astype(np.float64), matched.astype(float))
    return np.stack([model.X_thresholds_, model.y_thresholds_])


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
    pairs = np.bincount(owners)
    gaps = np.bincount(owners * BINS + places, probabilities - matched, len(pairs) * BINS)
    gaps = gaps.reshape(len(pairs), BINS)
    ece = float(np.abs(gaps.sum(axis=0)).sum() / len(places))
    report = {
        "ece": round(ece, _DIGITS),
        "brier": round(float(np.mean((probabilities - matched) ** 2)), _DIGITS),
        "bins": [_bin(place, probabilities, matched, places == place) for place in range(BINS)],
    }
    if rng:
        shares = np.full(len(pairs), 1 / len(pairs))
        counts = (rng.multinomial(len(pairs), shares) for _ in range(resamples))
        draws = np.array([np.abs(count @ gaps).sum() / (count @ pairs) for count in counts])
        ends = np.clip(interval(draws - np.median(draws) + ece), 0, 1)
        report["ece_interval"] = ends.round(_DIGITS).tolist()
    return report


def _bin(place: int, probabilities: Values, matched: Matched, inside: Matched) -> dict:
    entry = {"from": place / BINS, "to": (place + 1) / BINS, "pairs": int(inside.sum())}
    if entry["pairs"]:
        shares = {"probability": probabilities[inside], "matched": matched[inside]}
        entry |= {name: round(float(values.mean()), _DIGITS) for name, values in shares.items()}
    return entry


@dataclass(frozen=True)
class Candidates:
    """scores: under the criterion; matched: whether the pair matches; owners: its query; queries:
    their number."""

    scores: Values
    matched: Matched
    owners: Int64[np.ndarray, " pairs"]
    queries: int

    @property
    def about(self) -> dict:
        base_rate = round(float(self.matched.mean()), _DIGITS)
        return {"queries": self.queries, "pairs": len(self.scores), "base_rate": base_rate}


def candidates(sides: Sequence[tuple[Scores, Truth]]) -> Candidates:
    """Pairs of the queries that have a correct item, of several folds together. sides: the scores
    under the criterion and the correct items of each fold."""
    scores, matched, owners, queries = [], [], [], 0
    for fold, truth in sides:
        strips = [top_k(fold.strip(rows), CANDIDATES) for rows in fold.strips()]
        values, columns = (torch.cat(parts).cpu().numpy() for parts in zip(*strips, strict=True))
        rows = truth.judged()
        scores.append(values[rows].astype(np.float64).ravel())
        matched.append(truth.holds(np.repeat(rows, values.shape[1]), columns[rows].ravel()))
        owners.append(np.repeat(np.arange(queries, queries + len(rows)), values.shape[1]))
        queries += len(rows)
    pairs = np.concatenate(scores), np.concatenate(matched), np.concatenate(owners)
    return Candidates(*pairs, queries)


def measured(validation: Candidates, test: Candidates, clusters: np.ndarray, resamples: int, seed: int) -> dict:
    """An entry of metrics.json: a curve fitted on ``validation``, measured on ``test``. clusters:
    of each test query."""
    probabilities = np.interp(test.scores, *fitted(validation.scores, validation.matched))
    rng = generator(seed, "calibration") if resamples else None
    return {
        "method": METHOD,
        "candidates": CANDIDATES,
        "fitted": validation.about,
        "measured": test.about,
        **reliability(probabilities, test.matched, clusters[test.owners], resamples, rng),
    }
