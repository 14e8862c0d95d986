"""Outcomes of one direction, and folds (COCO: c1 first images, c2 mean over folds)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Int

from vse_pipe.artifacts.evaluation import KS
from vse_pipe.core.errors import InputError
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking import graded, hubness, recall
from vse_pipe.ranking.graded import Cells, Listed
from vse_pipe.ranking.matching import MatchedPairs
from vse_pipe.ranking.recall import Ties, Truth, positions
from vse_pipe.ranking.scores import Scores, top_k
from vse_pipe.ranking.split import Split


def folds(split: Split, params: EvaluateParams, chooses: bool = False) -> list[Split]:
    """The folds to measure, in the order of the embedding file. ``full`` and ``first`` give one
    fold. chooses: the split only chooses parameters, so images beyond the last whole fold are left
    out, and a split smaller than a fold is used as it is.

    Raises InputError for figures that would look comparable to a published protocol and are not:
    when the images are not a whole number of folds, or fewer than the first fold."""
    images, size, is_first = len(split.image_ids), params.fold_size, params.protocol == "first"
    if params.protocol == "full" or (chooses and images < size):
        return [split]
    if not chooses and (images < size if is_first else images % size):
        raise InputError(
            f"evaluate.protocol {params.protocol}: split '{params.split}' has {images} images, "
            f"{'fewer than' if is_first else 'not a multiple of'} evaluate.fold_size {size}; "
            "change fold_size or use protocol full"
        )
    starts = np.arange(1 if is_first else images // size) * size
    return [split.fold(slice(start, start + size)) for start in starts]


_NDCG = 10
_MEANS = {"ap": "map", "ap_at_r": "map@r", "r_precision": "r_precision"}


@dataclass(frozen=True)
class Depths:
    """K of R@K and of nDCG@K, ascending; KS and 10 are always among them."""

    recall: tuple[int, ...] = KS
    ndcg: tuple[int, ...] = (_NDCG,)

    @classmethod
    def including(cls, recall: Sequence[int], ndcg: Sequence[int]) -> "Depths":
        return cls(tuple(sorted({*KS, *recall})), tuple(sorted({_NDCG, *ndcg})))

    def hits(self, ranks: graded.Queries) -> dict[int, np.ndarray]:
        return {k: ranks < k for k in self.recall}


_USUAL = Depths()


def means(columns: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Means over queries in percent: r@K, mrr, each of ``graded.measures``. columns: of ranks.parquet."""
    metrics = {f"r@{name[4:]}": recall.recall(hits) for name, hits in columns.items() if name.startswith("hit_")}
    metrics["mrr"] = 100.0 * float((1.0 / columns["rank"]).mean())
    for name, values in columns.items():
        if name in _MEANS or "ndcg_" in name:
            metrics[_MEANS.get(name, name.replace("ndcg_", "ndcg@"))] = 100.0 * float(values.mean())
    return metrics


@dataclass(frozen=True)
class Outcome:
    """The result of one direction. ranks: float64 (queries,), 0-based, of the best correct item,
    None for a matching; hits: by K, bool (queries,); top: columns of the best max(K) items, or of
    the items matched at that K, query after query; lengths: number of items per query; occurrence:
    by K, (items,); measures: by name, float64 (queries,), 0 to 1, empty for a matching; notes: of the rescoring."""

    ranks: np.ndarray | None
    hits: dict[int, np.ndarray]
    top: np.ndarray
    lengths: np.ndarray
    occurrence: dict[int, np.ndarray]
    measures: dict[str, np.ndarray] = field(default_factory=dict)
    notes: dict[str, float] = field(default_factory=dict)

    def metrics(self) -> dict[str, float]:
        """r@K: percent of queries with any correct item among the best K (hit at K), not percent of
        correct items.

        With ranks also med_r, mean_r, and in percent mrr, map, map@r, r_precision and ndcg@K.
        Hubness: skew@K, and at the largest K robin_hood and gini (0 to 1), anti_hubs (percent of
        items) and largest_hub (number of queries)."""
        metrics = {f"r@{k}": recall.recall(hits) for k, hits in self.hits.items()}
        if self.ranks is not None:
            metrics |= {"med_r": recall.median_rank(self.ranks), "mean_r": recall.mean_rank(self.ranks)}
            metrics |= means({"rank": self.ranks + 1, **self.measures})
        metrics |= {f"skew@{k}": hubness.skewness(counts) for k, counts in self.occurrence.items()}
        k = max(self.occurrence)
        return metrics | {f"{name}@{k}": measure(self.occurrence[k]) for name, measure in hubness.FIGURES.items()}


def rank(scores: Scores, truth: Truth, ties: Ties, depths: Depths = _USUAL) -> Outcome:
    """Ranks and best items of the queries with a correct item. Raises InputError on non-finite
    scores, and without such a query."""
    joined = np.empty(len(truth.items))
    top = np.empty((scores.shape[0], min(max(KS), scores.shape[1])), np.int64)
    for rows, strip in scores.blocks():
        joined[truth.starts[rows.start] : truth.starts[rows.stop]] = positions(strip, rows, truth, ties)
        top[rows] = top_k(strip, max(KS))[1].cpu().numpy()
    return outcome(joined, top, truth, depths)


def outcome(joined: graded.Pairs, top: Int[np.ndarray, "queries best"], truth: Truth, depths: Depths) -> Outcome:
    """Of the queries with a correct item. joined: positions of correct items, query after query;
    top: the best items of all queries. Raises InputError without such a query."""
    rows, starts = _judged(truth), np.unique(truth.starts)
    ranks, top = joined[starts[:-1]], top[rows]
    occurrence = {k: hubness.occurrence(top[:, :k].ravel(), truth.columns) for k in KS}
    lengths = np.full(len(top), top.shape[1])
    return Outcome(
        ranks, depths.hits(ranks), top.ravel(), lengths, occurrence, graded.measures(joined, starts, depths.ndcg)
    )


def matched(pairs: dict[int, MatchedPairs], truth: Truth) -> Outcome:
    """Of the queries with a correct item; all queries took part. pairs: by K, the matching of
    Algorithm 1 with k = K. Raises InputError without such a query."""
    rows = _judged(truth)
    hits, occurrence = {}, {}
    for k, matching in pairs.items():
        right = matching.rows[truth.holds(matching.rows, matching.columns)]
        hits[k] = np.bincount(right, minlength=len(truth))[rows] > 0
        columns = matching.columns[np.isin(matching.rows, rows)]
        occurrence[k] = hubness.occurrence(columns, truth.columns)
    widest = pairs[max(pairs)]
    order = np.argsort(widest.rows, kind="stable")
    order = order[np.isin(widest.rows[order], rows)]
    lengths = np.bincount(widest.rows, minlength=len(truth))[rows]
    return Outcome(None, hits, widest.columns[order], lengths, occurrence)


def _judged(truth: Truth) -> np.ndarray:
    rows = truth.judged()
    if not len(rows):
        raise InputError(f"none of the {len(truth)} queries has a correct item: there is nothing to measure")
    return rows


def graded_columns(correct: Listed, good: Listed, depths: Depths) -> dict[str, np.ndarray]:
    """A row for each query with a correct item: ``correct``, their number; ``rank`` of the best of
    them, 1 = best; ``hit_<K>``; measures, also ``graded_ndcg_<K>``. good: all items with a grade
    above 0."""
    ranks = correct.positions[correct.starts[:-1]]
    gains = good.positions, good.grades, good.starts
    return {
        "correct": np.diff(correct.starts).astype(np.int32),
        "rank": ranks + 1,
        **{f"hit_{k}": hits for k, hits in depths.hits(ranks).items()},
        **graded.measures(correct.positions, correct.starts, depths.ndcg),
        **{f"graded_ndcg_{k}": graded.ndcg(*gains, k) for k in depths.ndcg},
    }


def rank_graded(
    scores: Scores, cells: Cells, above: float, ties: Ties, depths: Depths
) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """Ranks all items; items without a grade are wrong. above: as in ``Graded``. Returns the rows
    of the queries with a correct item, their ``graded_columns``, and the score of each graded cell,
    float64, in their order."""
    good, grades, of_good = cells.truth(0.0)
    places, cell_scores = np.empty(len(good.items)), np.empty(len(cells.rows))
    for rows, strip in scores.blocks():
        inside = np.flatnonzero((cells.rows >= rows.start) & (cells.rows < rows.stop))
        cell_scores[inside] = strip.cpu().numpy()[cells.rows[inside] - rows.start, cells.columns[inside]]
        places[good.starts[rows.start] : good.starts[rows.stop]] = positions(strip, rows, good, ties)
    owners = np.repeat(np.arange(cells.queries), np.diff(good.starts))
    grades = grades[graded.ordered(owners, cell_scores[of_good], grades, ties)]
    correct = grades > above
    if not correct.any():
        return owners[correct], {}, cell_scores
    judged = np.isin(owners, owners[correct])
    goods, listed = (Listed.of_items(owners[chosen], places[chosen], grades[chosen]) for chosen in (judged, correct))
    return listed.queries, graded_columns(listed, goods, depths), cell_scores
