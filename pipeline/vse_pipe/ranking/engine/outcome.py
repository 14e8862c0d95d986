"""What one direction of one fold gives, whether its queries were ranked or matched."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Int

from vse_pipe.artifacts.evaluation import KS
from vse_pipe.ranking.engine import tiles
from vse_pipe.ranking.engine.judged import judged
from vse_pipe.ranking.engine.matching import MatchedPairs
from vse_pipe.ranking.engine.scores import Scores
from vse_pipe.ranking.engine.top import top_k
from vse_pipe.ranking.metrics import hubness, precision, recall
from vse_pipe.ranking.metrics.positions import positions
from vse_pipe.ranking.metrics.ranks import Ties
from vse_pipe.ranking.metrics.truth import Truth

_NDCG = 10
_MEASURES: dict[str, Callable] = {
    "ap": precision.average_precision,
    "ap_at_r": precision.average_precision_at_r,
    "r_precision": precision.r_precision,
}
_MEANS = {"ap": "map", "ap_at_r": "map@r", "r_precision": "r_precision"}
_HUBNESS = {
    "robin_hood": hubness.robin_hood,
    "gini": hubness.gini,
    "anti_hubs": lambda counts: 100.0 * hubness.anti_hubs(counts),
    "largest_hub": hubness.largest_hub,
}


@dataclass(frozen=True)
class Depths:
    """K of R@K and of nDCG@K, ascending; KS and 10 are always among them."""

    recall: tuple[int, ...] = KS
    ndcg: tuple[int, ...] = (_NDCG,)

    @classmethod
    def of(cls, recall: Sequence[int], ndcg: Sequence[int]) -> "Depths":
        return cls(tuple(sorted({*KS, *recall})), tuple(sorted({_NDCG, *ndcg})))

    def measures(self, positions: precision.Pairs, starts: precision.Starts) -> dict[str, np.ndarray]:
        """What every query gets but for its rank, by column; see ``metrics.precision``."""
        found = {name: measure(positions, starts) for name, measure in _MEASURES.items()}
        return found | {f"ndcg_{k}": precision.ndcg(positions, starts, k) for k in self.ndcg}

    def hits(self, ranks: precision.Queries) -> dict[int, np.ndarray]:
        return {k: recall.hits_at(ranks, k) for k in self.recall}


def means(
    ranks: precision.Queries, measures: dict[str, np.ndarray], hits: dict[int, np.ndarray] | None = None
) -> dict[str, float]:
    """mrr, of each column of ``Depths.measures`` its mean, and r@K, in percent. ranks: 0-based."""
    found = {f"r@{k}": recall.recall(of_k) for k, of_k in (hits or {}).items()}
    found["mrr"] = 100.0 * float(precision.reciprocal_rank(ranks).mean())
    names = {name: _MEANS.get(name, name.replace("ndcg_", "ndcg@")) for name in measures}
    return found | {names[name]: 100.0 * float(values.mean()) for name, values in measures.items()}


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

        Where there are ranks: med_r and mean_r, and mrr, map, map@r, r_precision and ndcg@K in percent. Of
        hubness: skew@K, and at the largest K the indices robin_hood and gini, 0 to 1, anti_hubs in percent of
        the items, and largest_hub, a number of queries.
        """
        found = {f"r@{k}": recall.recall(hits) for k, hits in self.hits.items()}
        if self.ranks is not None:
            found |= {"med_r": recall.median_rank(self.ranks), "mean_r": recall.mean_rank(self.ranks)}
            found |= means(self.ranks, self.measures)
        found |= {f"skew@{k}": hubness.skewness(counts) for k, counts in self.occurrence.items()}
        k = max(self.occurrence)
        return found | {f"{name}@{k}": measure(self.occurrence[k]) for name, measure in _HUBNESS.items()}


def rank(scores: Scores, truth: Truth, ties: Ties, ks: tuple[int, ...] = KS, depths: Depths | None = None) -> Outcome:
    """Positions and best items in one pass. ks: of hubness, and of R@K without ``depths``. Raises InputError on scores that
    are not finite."""
    depths = depths or Depths(ks)
    joined = np.empty(len(truth.items))
    top = np.empty((scores.shape[0], min(max(ks), scores.shape[1])), np.int64)

    def placed(rows: slice) -> tuple[np.ndarray, np.ndarray]:
        strip = scores.strip(rows)
        return positions(strip, rows, truth, ties), top_k(strip, max(ks))[1].cpu().numpy()

    for rows, (places, best) in scores.each(placed):
        joined[truth.starts[rows.start] : truth.starts[rows.stop]] = places
        top[rows] = best
    return _of(joined, top, truth, ks, depths)


def rank_both(sides: Sequence[Scores], truths: Sequence[Truth], ties: Ties, depths: Depths) -> list[Outcome]:
    """``rank`` of both directions of the same scores, of the queries with a correct item; in one pass where that is possible."""
    given = [judged(scores, truth) for scores, truth in zip(sides, truths, strict=True)]
    found = tiles.ranked(sides, truths, ties, max(KS))
    if found is None:
        return [rank(scores, truth, ties, depths=depths) for scores, truth in given]
    tops = [top[truth.judged()] for (_, top), truth in zip(found, truths, strict=True)]
    return [
        _of(joined, top, truth, KS, depths) for (joined, _), top, (_, truth) in zip(found, tops, given, strict=True)
    ]


def _of(
    joined: precision.Pairs, top: Int[np.ndarray, "queries best"], truth: Truth, ks: tuple[int, ...], depths: Depths
) -> Outcome:
    """joined: the positions of correct items, query after query."""
    ranks = joined[truth.starts[:-1]]
    occurrence = {k: hubness.occurrence(top[:, :k].ravel(), truth.columns) for k in ks}
    lengths = np.full(len(top), top.shape[1])
    measures = depths.measures(joined, truth.starts)
    return Outcome(ranks, depths.hits(ranks), top.ravel(), lengths, occurrence, measures)


def matched(pairs: dict[int, MatchedPairs], truth: Truth) -> Outcome:
    """pairs: by K, what Algorithm 1 matched when run with k = K."""
    queries = len(truth)
    hits, occurrence = {}, {}
    for k, found in pairs.items():
        right = found.rows[truth.holds(found.rows, found.columns) & found.counted()]
        hits[k] = np.bincount(right, minlength=queries) > 0
        occurrence[k] = hubness.occurrence(found.columns, truth.columns)
    widest = pairs[max(pairs)]
    by_query = np.argsort(widest.rows, kind="stable")
    return Outcome(None, hits, widest.columns[by_query], np.bincount(widest.rows, minlength=queries), occurrence)
