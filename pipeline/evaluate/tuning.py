"""Parameters of a criterion, chosen on validation data."""

from collections.abc import Sequence

import numpy as np

from pipeline import console
from pipeline.artifacts.evaluation import KS
from pipeline.evaluate import outcome
from pipeline.evaluate.criteria import Criterion
from pipeline.evaluate.matching import Setting
from pipeline.evaluate.ranking import Trial, Tuned


def tuned(criterion: Criterion, trials: Sequence[Trial], everything: bool) -> Tuned:
    """The criterion with the parameters that answer most validation queries of one direction.

    Lambda, where it is open, is chosen for each K. everything: choose the rescoring's parameters too, before lambda, by
    the sum of R@K over K. trials: the folds of that direction; not looked at where nothing is open.
    """
    if everything:
        criterion = _best_rescoring(criterion, trials)
    lambdas = criterion.lambdas
    if len(lambdas) > 1:
        return Tuned(criterion, best_lambdas(criterion, trials))
    return Tuned(criterion, dict.fromkeys(KS, lambdas[0]) if lambdas else {})


def _best_rescoring(criterion: Criterion, trials: Sequence[Trial]) -> Criterion:
    candidates = criterion.candidates()
    if len(candidates) == 1:
        return candidates[0]
    shown = console.track(candidates, len(candidates), f"tuning {criterion.name}, candidates")
    answered = [sum(_answered(candidate, trial) for trial in trials) for candidate in shown]
    return candidates[int(np.argmax(answered))]


def _answered(criterion: Criterion, trial: Trial) -> int:
    """Queries with a hit among the best K, summed over K; the matching on top is left out of it."""
    found = outcome.rank(criterion.rerank(trial.scores, trial.bank), trial.truth, "pessimistic")
    return sum(int(hits.sum()) for hits in found.hits.values())


def best_lambdas(criterion: Criterion, trials: Sequence[Trial], ks: tuple[int, ...] = KS) -> dict[int, float]:
    """By K, the smallest of ``criterion.lambdas`` with the most validation queries answered at that K ("lambdas that
    maximize R@K on the validation set", Fig. 4 of the RGM paper)."""
    settings = [Setting(k, lam) for k in ks for lam in criterion.lambdas]
    answered = np.zeros(len(settings), np.int64)
    for trial in trials:
        scores = criterion.rerank(trial.scores, trial.bank)
        for index, pairs in enumerate(criterion.match(scores, settings)):
            right = trial.truth.holds(pairs.rows, pairs.columns)
            answered[index] += len(np.unique(pairs.rows[right]))
    best = answered.reshape(len(ks), -1).argmax(axis=1)
    return {k: criterion.lambdas[index] for k, index in zip(ks, best, strict=True)}
