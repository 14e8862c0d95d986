"""Recall against lambda, the relaxation factor of a matching (Fig. 4 of the RGM paper)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from vse_pipe.artifacts.evaluation import KS
from vse_pipe.ranking.engine.criteria import Criterion
from vse_pipe.ranking.engine.matching import Allowance, MatchedPairs
from vse_pipe.ranking.engine.scores import Scores
from vse_pipe.ranking.metrics.truth import Truth

# Lambdas tried on the split that is measured: enough to see the shape, and a third of the work of the default grid.
_DRAWN = 13
_NOT_TRIED = -1


@dataclass(frozen=True)
class Scan:
    """One fold under many lambdas. answered: queries with a correct item among those they are matched with, a row a K and
    a column a lambda, -1 where it was not tried; queries: those that have a correct item at all; kept: by K, the matchings
    that were asked for."""

    answered: Int[np.ndarray, "ks lambdas"]
    queries: int
    kept: dict[int, MatchedPairs]


def scan(
    criterion: Criterion, scores: Scores, truth: Truth, ks: Sequence[int] = KS, keep: dict[int, float] | None = None
) -> Scan:
    """Match ``scores``, already rescored, once for each K and each lambda that the criterion may choose from.

    keep: by K, the lambda whose matching is wanted; given it, of a long grid only some others are tried. All queries take
    part; those without a correct item are in no figure.
    """
    tried = [(row, k, column) for row, k in enumerate(ks) for column in _columns(criterion, (keep or {}).get(k))]
    settings = [Allowance(k, criterion.lambdas[column]) for _, k, column in tried]
    counts, kept = np.full((len(ks), len(criterion.lambdas)), _NOT_TRIED), {}
    matched = criterion.match(scores, settings, truth)
    for (row, k, column), setting, pairs in zip(tried, settings, matched, strict=True):
        counts[row, column] = _answered(pairs, truth)
        if (keep or {}).get(k) == setting.lam:
            kept[k] = pairs
    return Scan(counts, len(truth.judged()), kept)


def _columns(criterion: Criterion, kept: float | None) -> list[int]:
    count = len(criterion.lambdas)
    if kept is None:
        return list(range(count))
    return sorted({*range(0, count, -(-count // _DRAWN)), count - 1, criterion.lambdas.index(kept)})


def _answered(pairs: MatchedPairs, truth: Truth) -> int:
    """This runs for every lambda."""
    # numba takes half a second to import, which commands that rank nothing should not pay.
    from vse_pipe.ranking.compiled.answered import answered

    return int(answered(pairs.rows, pairs.columns, pairs.lost, truth.starts, truth.items))


def best(lambdas: Sequence[float], scans: Sequence[Scan], ks: Sequence[int] = KS) -> dict[int, float]:
    """By K, the smallest lambda with the most queries answered over all folds."""
    chosen = np.sum([one.answered for one in scans], axis=0).argmax(axis=1)
    return {k: lambdas[place] for k, place in zip(ks, chosen, strict=True)}


def recalls(scans: Sequence[Scan]) -> Float[np.ndarray, "ks lambdas"]:
    """R@K in percent, the mean over the folds; 0 where no query has a correct item, NaN where it was not tried."""
    shares = [100.0 * one.answered / max(1, one.queries) for one in scans]
    return np.where(scans[0].answered == _NOT_TRIED, np.nan, np.mean(shares, axis=0))
