"""What one direction of one fold gives, whether its queries were ranked or matched."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from pipeline.artifacts.evaluation import KS
from pipeline.ranking.engine.matching import MatchedPairs
from pipeline.ranking.engine.scores import Scores
from pipeline.ranking.engine.top import top_k
from pipeline.ranking.metrics import hubness, precision, recall
from pipeline.ranking.metrics.positions import positions
from pipeline.ranking.metrics.ranks import Ties
from pipeline.ranking.metrics.truth import Truth

_MEASURES: dict[str, Callable] = {
    "ap": precision.average_precision,
    "ap_at_r": precision.average_precision_at_r,
    "r_precision": precision.r_precision,
    "ndcg_10": partial(precision.ndcg, k=10),
}
_MEANS = {"map": "ap", "map@r": "ap_at_r", "r_precision": "r_precision", "ndcg@10": "ndcg_10"}
_HUBNESS = {
    "robin_hood": hubness.robin_hood,
    "gini": hubness.gini,
    "anti_hubs": lambda counts: 100.0 * hubness.anti_hubs(counts),
    "largest_hub": hubness.largest_hub,
}


@dataclass(frozen=True)
class Outcome:
    """ranks: float64 (queries,), 0-based, of the best correct item, None for a matching; hits: by K, bool
    (queries,); top and lengths: columns of the best max(K) items or of those matched at that K, query after
    query, and how many; occurrence: by K, (items,); measures: by name, float64 (queries,), 0 to 1, empty for
    a matching."""

    ranks: np.ndarray | None
    hits: dict[int, np.ndarray]
    top: np.ndarray
    lengths: np.ndarray
    occurrence: dict[int, np.ndarray]
    measures: dict[str, np.ndarray] = field(default_factory=dict)

    def metrics(self) -> dict[str, float]:
        """r@K: percent of queries with any correct item among the best K (hit at K), not of items found.

        Where there are ranks: med_r and mean_r, and mrr, map, map@r, r_precision and ndcg@10 in percent. Of
        hubness: skew@K, and at the largest K the indices robin_hood and gini, 0 to 1, anti_hubs in percent of
        the items, and largest_hub, a number of queries.
        """
        found = {f"r@{k}": recall.recall(hits) for k, hits in self.hits.items()}
        if self.ranks is not None:
            found |= {"med_r": recall.median_rank(self.ranks), "mean_r": recall.mean_rank(self.ranks)}
            found["mrr"] = 100.0 * float(precision.reciprocal_rank(self.ranks).mean())
            found |= {name: 100.0 * float(self.measures[key].mean()) for name, key in _MEANS.items()}
        found |= {f"skew@{k}": hubness.skewness(counts) for k, counts in self.occurrence.items()}
        k = max(self.occurrence)
        return found | {f"{name}@{k}": measure(self.occurrence[k]) for name, measure in _HUBNESS.items()}


def rank(scores: Scores, truth: Truth, ties: Ties, ks: tuple[int, ...] = KS) -> Outcome:
    """Positions and best items in one pass. Raises InputError on scores that are not finite."""
    joined = np.empty(len(truth.items))
    top = np.empty((scores.shape[0], min(max(ks), scores.shape[1])), np.int64)
    for rows, block in scores.blocks():
        joined[truth.starts[rows.start] : truth.starts[rows.stop]] = positions(block, rows, truth, ties)
        top[rows] = top_k(block, max(ks))[1].cpu().numpy()
    ranks = joined[truth.starts[:-1]]
    hits = {k: recall.hits_at(ranks, k) for k in ks}
    occurrence = {k: hubness.occurrence(top[:, :k].ravel(), scores.shape[1]) for k in ks}
    measures = {name: measure(joined, truth.starts) for name, measure in _MEASURES.items()}
    return Outcome(ranks, hits, top.ravel(), np.full(len(top), top.shape[1]), occurrence, measures)


def matched(pairs: dict[int, MatchedPairs], truth: Truth) -> Outcome:
    """pairs: by K, what Algorithm 1 matched when run with k = K."""
    queries = len(truth)
    hits, occurrence = {}, {}
    for k, found in pairs.items():
        right = found.rows[truth.holds(found.rows, found.columns)]
        hits[k] = np.bincount(right, minlength=queries) > 0
        occurrence[k] = hubness.occurrence(found.columns, truth.columns)
    widest = pairs[max(pairs)]
    by_query = np.argsort(widest.rows, kind="stable")
    return Outcome(None, hits, widest.columns[by_query], np.bincount(widest.rows, minlength=queries), occurrence)
