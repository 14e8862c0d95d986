"""Parameters of a criterion, chosen on validation data."""

from collections.abc import Sequence

import numpy as np

from vse_pipe.artifacts.evaluation import KS
from vse_pipe.core import console
from vse_pipe.ranking.engine import outcome, relaxation
from vse_pipe.ranking.engine.criteria import Criterion
from vse_pipe.ranking.engine.trial import Trial, Tuned


def tuned(criterion: Criterion, trials: Sequence[Trial], everything: bool) -> Tuned:
    """The criterion with the parameters that answer most validation queries of one direction.

    Lambda, where it is open, is chosen for each K, and the recalls it was chosen by are kept. everything: choose the rescoring's parameters too, before lambda, by
    the sum of R@K over K. trials: the folds of that direction; not looked at where nothing is open.
    """
    if everything:
        criterion = _best_rescoring(criterion, trials)
    lambdas = criterion.lambdas
    if len(lambdas) > 1:
        scans = _scans(criterion, trials, KS)
        return Tuned(criterion, relaxation.best(lambdas, scans), relaxation.recalls(scans))
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
    found = outcome.rank(trial.under(criterion), trial.truth, "pessimistic")
    return sum(int(hits.sum()) for hits in found.hits.values())


def best_lambdas(criterion: Criterion, trials: Sequence[Trial], ks: tuple[int, ...] = KS) -> dict[int, float]:
    """By K, the smallest of ``criterion.lambdas`` with the most validation queries answered at that K ("lambdas that
    maximize R@K on the validation set", Fig. 4 of the RGM paper)."""
    return relaxation.best(criterion.lambdas, _scans(criterion, trials, ks), ks)


def _scans(criterion: Criterion, trials: Sequence[Trial], ks: tuple[int, ...]) -> list[relaxation.Scan]:
    return [relaxation.scan(criterion, trial.under(criterion), trial.truth, ks) for trial in trials]
