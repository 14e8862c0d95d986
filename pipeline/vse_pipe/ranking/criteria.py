"""Criteria by name, such as ``is+rgm``: on one fold, and the choice of parameters."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from vse_pipe.artifacts.evaluation import DIRECTIONS, KS
from vse_pipe.core import console
from vse_pipe.core.errors import UsageError
from vse_pipe.core.strict import Strict
from vse_pipe.project.registry import INFERENCES, Member, criterion_parts, ends_in_matching
from vse_pipe.ranking import both_ways, outcomes
from vse_pipe.ranking.bank import Bank, ItemBias
from vse_pipe.ranking.cascade import Cascade, ScoredPairs, cascaded
from vse_pipe.ranking.matching import Allowance, MatchedPairs, wrong_first
from vse_pipe.ranking.outcomes import Depths, Outcome
from vse_pipe.ranking.recall import Ties, Truth
from vse_pipe.ranking.scores import Scores, Similarity
from vse_pipe.ranking.split import BankSource, Split

PLAIN = "nns"


@dataclass(frozen=True)
class Criterion:
    """rescoring: scores to scores, ``nns`` for a matching; matching: scores to pairs, or None."""

    name: str
    rescoring: Member
    matching: Member | None

    @property
    def needs_bank(self) -> bool:
        """Whether the scores depend on the queries of a bank."""
        return self.rescoring.name != PLAIN

    @property
    def is_foldable(self) -> bool:
        """Whether it is one number an item."""
        return not self.matching and INFERENCES.traits(self.rescoring.name).item_bias

    @property
    def lambdas(self) -> tuple[float, ...]:
        """The relaxation factors that its matching may choose from; empty without a matching."""
        return tuple(self.matching.params.lambdas()) if self.matching else ()

    def rerank(self, scores: Scores, bank: Bank) -> Scores:
        return INFERENCES.load(self.rescoring.name).rerank(scores, bank, self.rescoring.params)

    def item_bias(self, bank: Bank) -> ItemBias | None:
        """The criterion as one number per item; None for other criteria."""
        module = INFERENCES.load(self.rescoring.name)
        return module.item_bias(bank, self.rescoring.params) if self.is_foldable else None

    def with_options(self, options: Any) -> "Criterion":
        """The criterion with other options of its rescoring."""
        return replace(self, rescoring=replace(self.rescoring, params=options))

    def open_parameters(self, tune: bool) -> list[str]:
        """Options of params.yaml that validation data must choose, such as ``inference.rgm.lam``.
        tune: whether they choose those with a default too."""
        names = [f"inference.{self.rescoring.name}.{name}" for name in self.rescoring.params.varied()] if tune else []
        if self.matching and len(self.lambdas) > 1:
            names.append(f"inference.{self.matching.name}.lam")
        return names

    def match(self, scores: Scores, settings: Sequence[Allowance], truth: Truth) -> Iterator[MatchedPairs]:
        """One matching for each setting, of scores from ``rerank``. truth: of the same queries; it
        groups captions by image for ``mode: captions``, and pairs of the same score are taken wrong
        ones first."""
        assert self.matching is not None
        module, params = INFERENCES.load(self.matching.name), self.matching.params
        turns = truth.turns() if params.mode == "captions" else np.zeros(len(truth), np.int64)
        lots = [np.flatnonzero(turns == turn) for turn in range(turns.max() + 1)]
        scores = wrong_first(scores, truth)
        chosen = [scores if len(lots) == 1 else scores.take(lot) for lot in lots]
        for matched in zip(*(module.match(of_lot, settings, params) for of_lot in chosen), strict=True):
            rows = [lot[pairs.rows] for lot, pairs in zip(lots, matched, strict=True)]
            yield MatchedPairs(np.concatenate(rows), np.concatenate([pairs.columns for pairs in matched]))


def parse(name: str, options: dict[str, Strict]) -> Criterion:
    """options: parameters by member; missing members get their defaults.

    Raises UnknownMember for parts that do not exist or fit together."""
    members = [_member(part, options) for part in criterion_parts(name)]
    matching = members.pop() if ends_in_matching(name) else None
    return Criterion(name, members[0] if members else _member(PLAIN, options), matching)


def _member(name: str, options: dict[str, Strict]) -> Member:
    return Member(name, options.get(name, INFERENCES.options(name)()))


def foldable(inference: str, options: dict[str, Strict]) -> Criterion:
    """``parse`` of a criterion that is one number an item. Raises UsageError for others."""
    criterion = parse(inference, options)
    if not criterion.is_foldable:
        able = [name for name in INFERENCES.names() if INFERENCES.traits(name).item_bias]
        raise UsageError(f"{inference} is more than one number an item; these are one: {', '.join(able)}")
    return criterion


@dataclass(frozen=True)
class Trial:
    """One direction of one fold. finish: orders the best items of scores under a criterion anew, as
    the second model of a cascade does, and float32 vectors after coded ones."""

    scores: Scores
    bank: Bank
    truth: Truth
    finish: Callable[[Scores, Criterion], Scores] | None = None

    def under(self, criterion: Criterion) -> Scores:
        """The scores under the criterion, finished."""
        scores = criterion.rerank(self.scores, self.bank)
        return self.finish(scores, criterion) if self.finish else scores


@dataclass(frozen=True)
class Tuned:
    """A criterion with chosen parameters. lambdas: relaxation factor by K, empty without a
    matching; recalls: R@K on validation data under each lambda, None where lambda was given;
    chosen: the parameters that validation data chose, by name."""

    criterion: Criterion
    lambdas: dict[int, float]
    recalls: Float[np.ndarray, "ks lambdas"] | None = None
    chosen: dict[str, Any] = field(default_factory=dict)

    def parameters(self) -> dict[str, Any]:
        """All parameters without grids; lambda by K."""
        values: dict = {}
        for part in filter(None, (self.criterion.rescoring, self.criterion.matching)):
            options = part.params.model_dump()
            values |= {name: value for name, value in options.items() if not name.endswith("grid") and name != "lam"}
        return values | ({"lambda": self.lambda_by_k()} if self.lambdas else {})

    def lambda_by_k(self) -> dict[str, float]:
        return {str(k): value for k, value in self.lambdas.items()}


def trials(
    folds: Sequence[Split], source: BankSource, similarity: Similarity, memory: int, sets: int = 1
) -> dict[str, list[Trial]]:
    """By direction, a trial a fold; directions share scores. memory: MiB of all ``sets``."""
    if isinstance(similarity, Cascade):
        return _cascades(folds, source, similarity, memory, sets)
    by_direction: dict[str, list[Trial]] = {direction: [] for direction in DIRECTIONS}
    sets *= len(folds)
    for fold in folds:
        forward = fold.scores(similarity, memory, sets)
        for direction, scores in zip(DIRECTIONS, (forward, forward.transposed()), strict=True):
            bank = source.bank(fold, scores, direction, similarity, memory, sets)
            by_direction[direction].append(Trial(scores, bank, fold.truth(direction)))
    return by_direction


def _cascades(
    folds: Sequence[Split], source: BankSource, cascade: Cascade, memory: int, sets: int
) -> dict[str, list[Trial]]:
    """Trials of the first model followed by the second; both directions share its scored pairs."""
    bank = source if source.split is None else replace(source, split=source.split.part(0))
    by_direction = trials([fold.part(0) for fold in folds], bank, cascade.first, memory, sets)
    seconds = [ScoredPairs(fold.part(1).images, fold.part(1).captions, cascade.second, memory) for fold in folds]

    def trial(side: Trial, pairs: ScoredPairs, direction: str) -> Trial:
        turn = 1 if direction == "image_to_text" else -1

        def pick(queries: Tensor, items: Tensor) -> Tensor:
            return pairs.score(*(queries, items)[::turn])

        return replace(side, finish=lambda scores, criterion: cascaded(scores, pick, cascade.k))

    return {
        direction: [trial(side, pairs, direction) for side, pairs in zip(sides, seconds, strict=True)]
        for direction, sides in by_direction.items()
    }


def rank_fold(tuned: Sequence[Tuned], sides: Sequence[Trial], ties: Ties, depths: Depths) -> list[Outcome]:
    """Both directions of a fold, ranked in one pass where there are many scores.

    All queries are ranked and correct hubs; the outcome leaves out queries without a correct item.
    Raises InputError when no query is left."""
    scores = [side.under(choice.criterion) for choice, side in zip(tuned, sides, strict=True)]
    truths = [side.truth for side in sides]
    # A matching looks at all items of a query at once; so does the second model of a cascade, whose
    # scores no pass over both ways can make.
    one_pass = not any(choice.criterion.matching for choice in tuned) and both_ways.can_pass(scores)
    tiled = both_ways.ranked(scores, truths, ties, max(KS)) if one_pass else None
    ranked = []
    for place, (choice, rescored, truth) in enumerate(zip(tuned, scores, truths, strict=True)):
        if choice.criterion.matching:
            settings = [Allowance(k, lam) for k, lam in choice.lambdas.items()]
            matchings = choice.criterion.match(rescored, settings, truth)
            outcome = outcomes.matched(dict(zip(choice.lambdas, matchings, strict=True)), truth)
        elif tiled:
            outcome = outcomes.outcome(*tiled[place], truth, depths)
        else:
            outcome = outcomes.rank(rescored, truth, ties, depths)
        ranked.append(replace(outcome, notes=dict(rescored.notes)))
    return ranked


def choose_parameters(criterion: Criterion, trials: Sequence[Trial], everything: bool) -> Tuned:
    """The criterion with the parameters that answer most validation queries of one direction.

    An open lambda is the smallest of those that "maximize R@K on the validation set" (Fig. 4 of the
    RGM paper), for each K. everything: first choose the rescoring's parameters by the sum of R@K
    over K. trials: the folds of that direction; unused where nothing is open."""
    names = criterion.rescoring.params.varied() if everything else []
    if everything:
        criterion = _best_rescoring(criterion, trials)
    best = criterion.rescoring.params.model_dump()
    chosen = {name: best[name] for name in names}
    lambdas = criterion.lambdas
    if len(lambdas) < 2:
        return Tuned(criterion, dict.fromkeys(KS, lambdas[0]) if lambdas else {}, chosen=chosen)
    answered = [_answered(criterion, trial) for trial in trials]
    by_k = {k: lambdas[place] for k, place in zip(KS, np.sum(answered, axis=0).argmax(axis=1), strict=True)}
    queries = [max(1, len(trial.truth.judged())) for trial in trials]
    shares = [100.0 * counts / count for counts, count in zip(answered, queries, strict=True)]
    tuned = Tuned(criterion, by_k, np.mean(shares, axis=0))
    return replace(tuned, chosen=chosen | {"lambda": tuned.lambda_by_k()})


def _answered(criterion: Criterion, trial: Trial) -> Int[np.ndarray, "ks lambdas"]:
    """The number of queries that are matched with a correct item, for each K and lambda. All
    queries take part; queries without a correct item are in no figure."""
    settings = [Allowance(k, lam) for k in KS for lam in criterion.lambdas]
    matchings = criterion.match(trial.under(criterion), settings, trial.truth)
    rows = [pairs.rows[trial.truth.holds(pairs.rows, pairs.columns)] for pairs in matchings]
    return np.array([len(np.unique(queries)) for queries in rows]).reshape(len(KS), -1)


def _best_rescoring(criterion: Criterion, trials: Sequence[Trial]) -> Criterion:
    candidates = [criterion.with_options(options) for options in criterion.rescoring.params.candidates()]
    if len(candidates) == 1:
        return candidates[0]
    tracked = console.track(candidates, len(candidates), f"tuning {criterion.name}, candidates")
    answered = []
    for candidate in tracked:
        ranked = [outcomes.rank(trial.under(candidate), trial.truth, "pessimistic") for trial in trials]
        answered.append(sum(int(hits.sum()) for outcome in ranked for hits in outcome.hits.values()))
    return candidates[int(np.argmax(answered))]
