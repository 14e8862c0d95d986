"""The weights of an ensemble's runs, chosen on validation data: the share of each on a grid of twentieths."""

from collections.abc import Callable, Sequence

import numpy as np
from torch import device as Device

from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.core import console
from vse_pipe.evaluate.engine.ensemble import Ensemble
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking import evaluation
from vse_pipe.ranking.fragments import Several, weighted
from vse_pipe.ranking.fusion import RULES
from vse_pipe.ranking.metrics.recall import Truth
from vse_pipe.ranking.scores import Scores

_STEPS = 20
_MIB = 1 << 20


def tuned(ensemble: Ensemble, params: EvaluateParams, device: Device) -> tuple[float, ...]:
    """Those with the largest rsum of nearest neighbours on split val, in the protocol's folds; a run may get 0.

    ensemble: without weights. Raises InputError where a run has no split val embedded.
    """
    grounds = _grounds(ensemble, params, device)
    parts = len(ensemble.parts)

    def rsum(weights: Sequence[float]) -> float:
        return sum(_recalls(members, truth, weights) for members, truth in grounds)

    return ascent(parts, rsum)


def ascent(members: int, value: Callable[[Sequence[float]], float], steps: int = _STEPS) -> tuple[float, ...]:
    """The best of equal weights and of those on a greedy way: from nothing, in every step a share more for the member with
    which ``value`` is largest, the first of several; members may be taken again and again.

    Source: Caruana et al., Ensemble selection from libraries of models, ICML 2004, section 2.1, without their bagging.
    """
    counts = np.zeros(members, int)
    best = np.full(members, 1 / members)
    highest = value(best.tolist())
    for _ in console.track(range(steps), steps, "choosing the weights of the ensemble on val"):
        candidates = counts + np.eye(members, dtype=int)
        values = [value((one / one.sum()).tolist()) for one in candidates]
        counts = candidates[int(np.argmax(values))]
        if max(values) > highest:
            best, highest = counts / counts.sum(), max(values)
    return tuple(best.tolist())


def _grounds(ensemble: Ensemble, params: EvaluateParams, device: Device) -> list[tuple[list[Scores], Truth]]:
    """For each fold and direction what the fusion averages, of every member, and what is right."""
    folds = evaluation.tuning_folds(ensemble.split("val", device), params)
    similarities = [part.similarity(device) for part in ensemble.parts]
    found, rule = [], RULES[ensemble.fusion]
    for fold in folds:
        assert isinstance(fold.images, Several)
        assert isinstance(fold.captions, Several)
        sides = zip(fold.images.parts, fold.captions.parts, similarities, strict=True)
        scores = [Scores.of(images, captions, of, memory=params.memory, sets=0) for images, captions, of in sides]
        sizes = 2 * 4 * scores[0].shape[0] * scores[0].shape[1] * len(scores) * len(folds)
        hold = 2 * sizes <= params.memory * _MIB
        ruled = [Scores.fused([one], lambda strips: rule(next(iter(strips))), hold=hold) for one in scores]
        for direction in DIRECTIONS:
            turned = ruled if direction == DIRECTIONS[0] else [one.transposed() for one in ruled]
            found.append((turned, fold.truth(direction)))
    return found


def _recalls(members: list[Scores], truth: Truth, weights: Sequence[float]) -> float:
    """The sum of R@K over K, as shares."""
    both = Scores.fused(members, lambda strips: weighted(strips, weights))
    return sum(float(hits.mean()) for hits in evaluation.rank(both, truth, "pessimistic").hits.values())
