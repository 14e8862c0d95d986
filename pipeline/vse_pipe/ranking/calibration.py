"""Probability of a match given the score: a curve fitted on validation queries, measured on other queries.

The pairs are each query with its best CANDIDATES items under the criterion. A pair matches where the data set says that
the item is correct; true matches that the data set does not list count as wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int64

from vse_pipe.core.seeds import generator
from vse_pipe.ranking.evaluation import judged_items
from vse_pipe.ranking.intervals import interval
from vse_pipe.ranking.metrics.calibration import BINS, Reliability, ece_draws, fitted, reliability
from vse_pipe.ranking.metrics.recall import Truth
from vse_pipe.ranking.scores import Scores
from vse_pipe.ranking.tiles import top_k

CANDIDATES = 10
_DIGITS = 6


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


def candidates(scores: Scores, truth: Truth) -> Candidates:
    """Pairs of the queries that have a correct item. scores: under the criterion."""
    scores, truth = judged_items(scores, truth)
    values, columns = [], []
    for _, (best, places) in scores.over_strips(lambda rows: top_k(scores.strip(rows), CANDIDATES)):
        values.append(best.double().cpu().numpy())
        columns.append(places.cpu().numpy())
    owners = np.repeat(np.arange(len(truth)), values[0].shape[1])
    matched = truth.holds(owners, np.concatenate(columns).ravel())
    return Candidates(np.concatenate(values).ravel(), matched, owners, len(truth))


def joined(parts: Sequence[Candidates]) -> Candidates:
    """Candidates of several folds together."""
    before = np.cumsum([0, *(part.queries for part in parts)])
    owners = np.concatenate([part.owners + first for part, first in zip(parts, before, strict=False)])
    scores, matched = (np.concatenate([getattr(part, name) for part in parts]) for name in ("scores", "matched"))
    return Candidates(scores, matched, owners, int(before[-1]))


def measured(
    method: str, validation: Candidates, test: Candidates, clusters: np.ndarray, resamples: int, seed: int
) -> dict:
    """An entry of metrics.json: a curve fitted on ``validation``, measured on ``test``. clusters: of each test query.

    ece_interval: percentiles of bootstrap draws of clusters, moved so that their median is the estimate. A draw repeats
    pairs and therefore lies further from the diagonal than a new set of pairs would.
    """
    curve = fitted(method, validation.scores, validation.matched)
    probabilities = curve(test.scores)
    diagram = reliability(probabilities, test.matched)
    report = {
        "method": method,
        "candidates": CANDIDATES,
        "fitted": validation.about,
        "measured": test.about,
        "ece": round(diagram.ece, _DIGITS),
        "brier": round(diagram.brier, _DIGITS),
        "bins": [_bin(diagram, place) for place in range(BINS)],
    }
    if resamples:
        rng = generator(seed, "calibration")
        draws = ece_draws(probabilities, test.matched, clusters[test.owners], resamples, rng)
        ends = interval(draws - np.median(draws) + diagram.ece)
        report["ece_interval"] = [round(min(max(end, 0.0), 1.0), _DIGITS) for end in ends]
    return report


def _bin(diagram: Reliability, place: int) -> dict:
    entry = {"from": place / BINS, "to": (place + 1) / BINS, "pairs": int(diagram.counts[place])}
    if entry["pairs"]:
        shares = {"probability": diagram.probabilities, "matched": diagram.shares}
        entry |= {name: round(float(values[place]), _DIGITS) for name, values in shares.items()}
    return entry
