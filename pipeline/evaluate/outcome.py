"""What one direction of one fold gives, whether its queries were ranked or matched."""

from dataclasses import dataclass

import numpy as np
import torch

from pipeline.artifacts.evaluation import KS
from pipeline.evaluate.matching import Pairs
from pipeline.evaluate.metrics import hubness, recall
from pipeline.evaluate.metrics.ranks import Ties, best_ranks
from pipeline.evaluate.metrics.truth import Truth
from pipeline.evaluate.scores import Scores
from pipeline.evaluate.top import top_k


@dataclass(frozen=True)
class Outcome:
    """ranks: float64 (queries,), 0-based, None for a matching; hits: by K, bool (queries,); top and lengths: columns of
    the best max(K) items or of those matched at that K, query after query, and how many; occurrence: by K, (items,)."""

    ranks: np.ndarray | None
    hits: dict[int, np.ndarray]
    top: np.ndarray
    lengths: np.ndarray
    occurrence: dict[int, np.ndarray]

    def metrics(self) -> dict[str, float]:
        """r@K in percent, med_r and mean_r where there are ranks, skew@K."""
        found = {f"r@{k}": recall.recall(hits) for k, hits in self.hits.items()}
        if self.ranks is not None:
            found |= {"med_r": recall.median_rank(self.ranks), "mean_r": recall.mean_rank(self.ranks)}
        return found | {f"skew@{k}": hubness.skewness(counts) for k, counts in self.occurrence.items()}


def rank(scores: Scores, truth: Truth, ties: Ties, ks: tuple[int, ...] = KS) -> Outcome:
    """Ranks and best items in one pass over the scores. Raises InputError on scores that are not finite."""
    ranks, best = [], []
    for rows, block in scores.blocks():
        ranks.append(best_ranks(block, rows, truth, ties))
        best.append(top_k(block, max(ks))[1].cpu())
    top = torch.cat(best).numpy()
    joined = np.concatenate(ranks)
    hits = {k: recall.hits_at(joined, k) for k in ks}
    occurrence = {k: hubness.occurrence(top[:, :k].ravel(), scores.shape[1]) for k in ks}
    return Outcome(joined, hits, top.ravel(), np.full(len(top), top.shape[1]), occurrence)


def matched(pairs: dict[int, Pairs], truth: Truth) -> Outcome:
    """pairs: by K, what Algorithm 1 matched when run with k = K."""
    queries = len(truth)
    hits, occurrence = {}, {}
    for k, found in pairs.items():
        right = found.rows[truth.holds(found.rows, found.columns)]
        hits[k] = np.bincount(right, minlength=queries) > 0
        occurrence[k] = hubness.occurrence(found.columns, truth.columns)
    widest = pairs[max(pairs)]
    by_query = np.argsort(widest.rows, kind="stable")
    return Outcome(
        None, hits, widest.columns[by_query], np.bincount(widest.rows, minlength=queries), occurrence
    )
