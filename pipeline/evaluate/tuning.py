"""The relaxation factor lambda, chosen on validation data."""

from collections.abc import Sequence

import numpy as np

from pipeline.artifacts.evaluation import KS
from pipeline.evaluate.criteria import Criterion
from pipeline.evaluate.matching import Setting
from pipeline.evaluate.metrics.truth import Truth
from pipeline.evaluate.scores import Scores


def best_lambdas(
    criterion: Criterion, trials: Sequence[tuple[Scores, Truth]], ks: tuple[int, ...] = KS
) -> dict[int, float]:
    """By K, the smallest of ``criterion.lambdas`` with the most validation queries answered at that K ("lambdas that
    maximize R@K on the validation set", Fig. 4 of the RGM paper). trials: the raw scores of each fold, one direction."""
    settings = [Setting(k, lam) for k in ks for lam in criterion.lambdas]
    answered = np.zeros(len(settings), np.int64)
    for scores, truth in trials:
        for index, pairs in enumerate(criterion.match(criterion.rerank(scores), settings)):
            right = truth.holds(pairs.rows, pairs.columns)
            answered[index] += len(np.unique(pairs.rows[right]))
    best = answered.reshape(len(ks), -1).argmax(axis=1)
    return {k: criterion.lambdas[index] for k, index in zip(ks, best, strict=True)}
