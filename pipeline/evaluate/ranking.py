"""All queries of some folds, both ways, under one criterion."""

from dataclasses import dataclass, field

from pipeline import console
from pipeline.artifacts.evaluation import DIRECTIONS, KS
from pipeline.evaluate import outcome, tuning
from pipeline.evaluate.criteria import Criterion
from pipeline.evaluate.matching import Setting
from pipeline.evaluate.outcome import Outcome
from pipeline.evaluate.scores import Scores, Similarity
from pipeline.evaluate.split import Split
from pipeline.params.schema import EvaluateParams


@dataclass
class Ranking:
    """tuned: lambda by direction and K, empty until ``tune``."""

    criterion: Criterion
    similarity: Similarity
    params: EvaluateParams
    tuned: dict[str, dict[str, float]] = field(default_factory=dict)

    def tune(self, folds: list[Split]) -> None:
        """Choose lambda on validation folds."""
        for direction in console.track(
            DIRECTIONS, len(DIRECTIONS), f"choosing lambda for {self.criterion.name}"
        ):
            trials = [(self._scores(fold, direction), fold.truth(direction)) for fold in folds]
            best = tuning.best_lambdas(self.criterion, trials)
            self.tuned[direction] = {str(k): lam for k, lam in best.items()}

    def outcomes(self, folds: list[Split]) -> dict[str, list[Outcome]]:
        """By direction, one for each fold."""
        units = [(direction, fold) for direction in DIRECTIONS for fold in folds]
        found: dict[str, list[Outcome]] = {direction: [] for direction in DIRECTIONS}
        for direction, fold in console.track(units, len(units), f"ranking under {self.criterion.name}"):
            found[direction].append(self._outcome(fold, direction))
        return found

    def _outcome(self, fold: Split, direction: str) -> Outcome:
        scores, truth = self.criterion.rerank(self._scores(fold, direction)), fold.truth(direction)
        if not self.criterion.matches:
            return outcome.rank(scores, truth, self.params.ties)
        chosen = self.tuned.get(direction, {})
        settings = [Setting(k, chosen.get(str(k), self.criterion.lambdas[0])) for k in KS]
        return outcome.matched(dict(zip(KS, self.criterion.match(scores, settings), strict=True)), truth)

    def _scores(self, fold: Split, direction: str) -> Scores:
        scores = fold.scores(self.similarity, self.params.block)
        return scores if direction == "image_to_text" else scores.transposed()
