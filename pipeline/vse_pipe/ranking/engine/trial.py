"""The queries of some folds, both ways, under one criterion."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Float

from vse_pipe.artifacts.evaluation import DIRECTIONS, KS
from vse_pipe.ranking.engine import outcome, relaxation, tiles
from vse_pipe.ranking.engine.bank import Bank
from vse_pipe.ranking.engine.bank_source import BankSource
from vse_pipe.ranking.engine.cascade import Cascade, ScoredPairs, cascaded
from vse_pipe.ranking.engine.criteria import Criterion
from vse_pipe.ranking.engine.judged import judged, judged_pairs
from vse_pipe.ranking.engine.matching import Allowance
from vse_pipe.ranking.engine.outcome import Depths, Outcome
from vse_pipe.ranking.engine.relaxation import Scan
from vse_pipe.ranking.engine.scores import Scores, Similarity
from vse_pipe.ranking.engine.split import Split
from vse_pipe.ranking.metrics.ranks import Ties
from vse_pipe.ranking.metrics.truth import Truth

Ran = tuple[Outcome, dict[str, float], Scan | None]


@dataclass(frozen=True)
class Trial:
    """One direction of one fold: what is ranked, what corrects it, and what is right. finish: of a cascade, what its second
    model makes of the scores of the first."""

    scores: Scores
    bank: Bank
    truth: Truth
    finish: Callable[[Scores], Scores] | None = None

    def under(self, criterion: Criterion) -> Scores:
        """Corrected by the criterion, then in the order of the second model of a cascade."""
        scores = criterion.rerank(self.scores, self.bank)
        return self.finish(scores) if self.finish else scores

    def item_by_item(self, criterion: Criterion) -> Scores:
        """Corrected by one number an item where the criterion is that, as a search corrects: the ranking of ``under``, by scores
        that may differ by what moves all items of a query alike, or by a function that grows. Else as ``under``."""
        bias = criterion.item_bias(self.bank)
        return self.under(criterion) if bias is None else bias.apply(self.scores)


@dataclass(frozen=True)
class Tuned:
    """A criterion with its parameters chosen. lambdas: the relaxation factor of its matching by K, empty without one;
    recalls: R@K on validation data under every lambda it was chosen from, None where it was given."""

    criterion: Criterion
    lambdas: dict[int, float]
    recalls: Float[np.ndarray, "ks lambdas"] | None = None


def trials(
    folds: Sequence[Split], source: BankSource, similarity: Similarity, memory: int, sets: int = 1
) -> dict[str, list[Trial]]:
    """By direction, one for each fold; both directions of a fold share scores. memory: MiB for these ``sets`` of folds
    and others together."""
    if isinstance(similarity, Cascade):
        return _cascades(folds, source, similarity, memory, sets)
    found: dict[str, list[Trial]] = {direction: [] for direction in DIRECTIONS}
    sets *= len(folds)
    for fold in folds:
        one = fold.scores(similarity, memory, sets)
        for direction, scores in zip(DIRECTIONS, (one, one.transposed()), strict=True):
            bank = source.bank(fold, scores, direction, similarity, memory, sets)
            found[direction].append(Trial(scores, bank, fold.truth(direction)))
    return found


def _cascades(
    folds: Sequence[Split], source: BankSource, cascade: Cascade, memory: int, sets: int
) -> dict[str, list[Trial]]:
    """Those of the first model, with the second behind each; both directions share the pairs it has scored."""
    bank = source if source.split is None else replace(source, split=source.split.part(0))
    found = trials([fold.part(0) for fold in folds], bank, cascade.first, memory, sets)
    seconds = [ScoredPairs(fold.part(1).images, fold.part(1).captions, cascade.second, memory) for fold in folds]
    for direction, of in zip(DIRECTIONS, (ScoredPairs.of, ScoredPairs.turned), strict=True):
        found[direction] = [
            replace(trial, finish=partial(cascaded, pick=partial(of, pairs), k=cascade.k))
            for trial, pairs in zip(found[direction], seconds, strict=True)
        ]
    return found


def run(tuned: Tuned, trial: Trial, ties: Ties, depths: Depths | None = None) -> Ran:
    """What comes out, the notes of the rescoring (see ``Scores.notes``), and where lambda was chosen what the other
    lambdas would have given.

    All queries are ranked and correct hubs; those without a correct item are left out of the outcome. Raises InputError
    when no other is left.
    """
    criterion = tuned.criterion
    scores = trial.under(criterion)
    if not criterion.matching:
        return outcome.rank(*judged(scores, trial.truth), ties, depths=depths), dict(scores.notes), None
    scan = None
    if tuned.recalls is None:
        settings = [Allowance(k, tuned.lambdas[k]) for k in KS]
        pairs = dict(zip(KS, criterion.match(scores, settings, trial.truth), strict=True))
    else:
        scan = relaxation.scan(criterion, scores, trial.truth, keep=tuned.lambdas)
        pairs = scan.kept
    return outcome.matched(*judged_pairs(pairs, trial.truth)), dict(scores.notes), scan


def run_both(tuned: Sequence[Tuned], sides: Sequence[Trial], ties: Ties, depths: Depths) -> list[Ran]:
    """``run`` of both directions of a fold, in one pass where there are many scores."""
    of_tiles = not any(one.criterion.matching for one in tuned) and not any(side.finish for side in sides)
    if not (of_tiles and tiles.fit(sides[0].scores)):
        return [run(one, side, ties, depths) for one, side in zip(tuned, sides, strict=True)]
    scores = [side.under(one.criterion) for one, side in zip(tuned, sides, strict=True)]
    found = outcome.rank_both(scores, [side.truth for side in sides], ties, depths)
    return [(one, dict(of.notes), None) for one, of in zip(found, scores, strict=True)]
