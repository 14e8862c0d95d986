"""Inference criteria by name: a rescoring, a matching, or both, as in ``is+rgm``."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from vse_pipe.core.errors import UsageError
from vse_pipe.core.seeds import generator
from vse_pipe.core.strict import Strict
from vse_pipe.project.params import checks as grammar
from vse_pipe.project.registry import INFERENCES, CriterionTraits
from vse_pipe.ranking.bank import Bank, ItemBias
from vse_pipe.ranking.matching import Allowance, MatchedPairs, Ties
from vse_pipe.ranking.metrics.recall import Truth
from vse_pipe.ranking.scores import Chosen, Scores, Shuffled

PLAIN = "nns"


@dataclass(frozen=True)
class Part:
    """A member of the family with its options."""

    name: str
    module: ModuleType
    params: Any

    @classmethod
    def load(cls, name: str, options: dict[str, Strict]) -> "Part":
        module = INFERENCES.load(name)
        return cls(name, module, options.get(name, INFERENCES.options(name)()))

    @property
    def traits(self) -> CriterionTraits:
        return INFERENCES.traits(self.name)


@dataclass(frozen=True)
class Criterion:
    """rescoring: scores to scores, ``nns`` for a plain matching; matching: scores to pairs, or None."""

    name: str
    rescoring: Part
    matching: Part | None

    @property
    def needs_bank(self) -> bool:
        """Whether the scores depend on the queries of a bank."""
        return self.rescoring.name != PLAIN

    @property
    def lambdas(self) -> tuple[float, ...]:
        """The relaxation factors that its matching may choose from; empty without a matching."""
        return tuple(self.matching.params.lambdas()) if self.matching else ()

    def rerank(self, scores: Scores, bank: Bank) -> Scores:
        return self.rescoring.module.rerank(scores, bank, self.rescoring.params)

    def item_bias(self, bank: Bank) -> ItemBias | None:
        """The criterion as one number per item; None for other criteria."""
        if self.matching or not self.rescoring.traits.item_bias:
            return None
        return self.rescoring.module.item_bias(bank, self.rescoring.params)

    def candidates(self) -> list["Criterion"]:
        """The criterion with every combination of its grids' values; only itself where it has no grids."""
        options = getattr(self.rescoring.params, "candidates", lambda: [self.rescoring.params])()
        return [replace(self, rescoring=replace(self.rescoring, params=params)) for params in options]

    def varied(self) -> list[str]:
        """Names of the parameters that differ between the criterion and its candidates."""
        current = self.rescoring.params.model_dump()
        alternatives = [candidate.rescoring.params.model_dump() for candidate in self.candidates()]
        return [name for name in current if any(alternative[name] != current[name] for alternative in alternatives)]

    def match(self, scores: Scores, settings: Sequence[Allowance], truth: Truth) -> Iterator[MatchedPairs]:
        """One matching for each setting, of scores from ``rerank``. truth: groups captions by image for ``mode:
        captions``.

        Equal scores go to the lowest row and column, and data sets list captions in the order of their images. The
        items are therefore shuffled, always in the same way, so that the pairs do not follow that order. The answered
        queries do not depend on the shuffle: ``Ties`` takes the worst choice among equal scores.
        """
        order = generator(0, "order of items in a matching").permutation(scores.shape[1])
        assert self.matching is not None
        module, params = self.matching.module, self.matching.params
        turns = truth.turns() if params.mode == "captions" else np.zeros(len(truth), np.int64)
        lots = [np.flatnonzero(turns == turn) for turn in range(turns.max() + 1)]
        # ``Shuffled`` is outermost because selection reads it without moving items.
        chosen = [scores if len(lots) == 1 else Chosen(scores, lot) for lot in lots]
        ties = [Ties(of_lot, truth.only(lot)) for of_lot, lot in zip(chosen, lots, strict=True)]
        matchings = (module.match(Shuffled(of_lot, order), settings, params) for of_lot in chosen)
        for matched in zip(*matchings, strict=True):
            rows = [lot[pairs.rows] for lot, pairs in zip(lots, matched, strict=True)]
            columns = order[np.concatenate([pairs.columns for pairs in matched])]
            lost = [lot[of_lot.lost(pairs)] for lot, of_lot, pairs in zip(lots, ties, matched, strict=True)]
            yield MatchedPairs(np.concatenate(rows), columns, np.sort(np.concatenate(lost)))


def parse(name: str, options: dict[str, Strict]) -> Criterion:
    """options: parameters by member; missing members get their defaults.

    Raises UnknownMember for an unknown part, UsageError for parts that cannot be combined.
    """
    objection = grammar.objection(name)
    if objection:
        raise UsageError(objection)
    parts = [Part.load(part, options) for part in grammar.parts(name)]
    rescoring = Part.load(PLAIN, options) if parts[0].traits.matches else parts[0]
    return Criterion(name, rescoring, parts[-1] if parts[-1].traits.matches else None)
