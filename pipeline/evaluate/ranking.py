"""The queries of some folds, both ways, under one criterion."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.artifacts.evaluation import DIRECTIONS, KS
from pipeline.evaluate import outcome
from pipeline.evaluate.bank import Bank
from pipeline.evaluate.banks import BankSource
from pipeline.evaluate.criteria import Criterion
from pipeline.evaluate.judged import judged, judged_pairs
from pipeline.evaluate.matching import Setting
from pipeline.evaluate.metrics.ranks import Ties
from pipeline.evaluate.metrics.truth import Truth
from pipeline.evaluate.outcome import Outcome
from pipeline.evaluate.scores import Scores, Similarity
from pipeline.evaluate.split import Split


@dataclass(frozen=True)
class Trial:
    """One direction of one fold: what is ranked, what corrects it, and what is right."""

    scores: Scores
    bank: Bank
    truth: Truth


@dataclass(frozen=True)
class Tuned:
    """A criterion with its parameters chosen. lambdas: the relaxation factor of its matching by K, empty without one."""

    criterion: Criterion
    lambdas: dict[int, float]


def trials(
    folds: Sequence[Split], source: BankSource, similarity: Similarity, memory: int, sets: int = 1
) -> dict[str, list[Trial]]:
    """By direction, one for each fold; both directions of a fold share scores. memory: MiB for these ``sets`` of folds
    and others together."""
    found: dict[str, list[Trial]] = {direction: [] for direction in DIRECTIONS}
    sets *= len(folds)
    for fold in folds:
        one = fold.scores(similarity, memory, sets)
        for direction, scores in zip(DIRECTIONS, (one, one.transposed()), strict=True):
            bank = source.bank(fold, scores, direction, similarity, memory, sets)
            found[direction].append(Trial(scores, bank, fold.truth(direction)))
    return found


def run(tuned: Tuned, trial: Trial, ties: Ties) -> tuple[Outcome, dict[str, float]]:
    """What comes out, and the notes of the rescoring (see ``Scores.notes``).

    All queries are ranked and correct hubs; those without a correct item are left out of the outcome. Raises InputError
    when no other is left.
    """
    criterion = tuned.criterion
    scores = criterion.rerank(trial.scores, trial.bank)
    if not criterion.matching:
        return outcome.rank(*judged(scores, trial.truth), ties), dict(scores.notes)
    settings = [Setting(k, tuned.lambdas[k]) for k in KS]
    pairs = dict(zip(KS, criterion.match(scores, settings), strict=True))
    return outcome.matched(*judged_pairs(pairs, trial.truth)), dict(scores.notes)
