"""An inference criterion by name: a rescoring, a matching, or ``is+rgm``, the second on top of the first."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from pipeline.errors import UsageError
from pipeline.evaluate.matching import Pairs, Setting
from pipeline.evaluate.scores import Scores
from pipeline.params.strict import Strict
from pipeline.registry import INFERENCES
from pipeline.seeds import generator


@dataclass(frozen=True)
class Criterion:
    """rerank: scores to scores. lambdas: the relaxation factors its matching may choose from, empty when it ends in no
    matching. looks_around: a query's result depends on the other queries."""

    name: str
    rerank: Callable[[Scores], Scores]
    lambdas: tuple[float, ...]
    looks_around: bool
    _match: Callable[[Scores, Sequence[Setting]], Iterator[Pairs]] | None

    @property
    def matches(self) -> bool:
        return self._match is not None

    def match(self, scores: Scores, settings: Sequence[Setting]) -> Iterator[Pairs]:
        """One matching for each setting, of scores that ``rerank`` made.

        Equal scores go to the lowest row and column, and data sets list captions in the order of their images: in that
        order a model that scores everything alike would be matched without a mistake. So the items are shuffled first,
        always in the same way; without ties it makes no difference.
        """
        order = generator(0, "order of items in a matching").permutation(scores.shape[1])
        shuffled = scores.mapped(lambda strip, rows: strip[:, torch.from_numpy(order).to(strip.device)])
        for pairs in self._match(shuffled, settings):
            yield Pairs(pairs.rows, order[pairs.columns])


def parse(name: str, options: dict[str, Strict]) -> Criterion:
    """options: parameters by member; a member that is not there gets its defaults.

    Raises UnknownMember for an unknown part, UsageError for parts that do not go together.
    """
    parts = name.split("+")
    modules = [INFERENCES.load(part) for part in parts]
    is_matching = [hasattr(module, "match") for module in modules]
    if len(parts) > 2 or is_matching[:-1] == [True] or is_matching == [False, False]:
        raise UsageError(f"inference criterion '{name}': {_objection(parts, is_matching)}")
    given = [options.get(part, module.Params()) for part, module in zip(parts, modules, strict=True)]

    def rerank(scores: Scores) -> Scores:
        return scores if is_matching[0] else modules[0].rerank(scores, given[0])

    def match(scores: Scores, settings: Sequence[Setting]) -> Iterator[Pairs]:
        return modules[-1].match(scores, settings, given[-1])

    looks_around = parts != ["nns"]
    if not is_matching[-1]:
        return Criterion(name, rerank, (), looks_around, None)
    return Criterion(name, rerank, tuple(given[-1].lambdas()), looks_around, match)


def _objection(parts: list[str], is_matching: list[bool]) -> str:
    if len(parts) > 2:
        return f"{len(parts)} parts; give one rescoring and one matching at most, such as is+rgm"
    if all(is_matching):
        return "two matchings; the first leaves no scores for the second"
    if is_matching[0]:
        return f"a matching comes last; write '{parts[1]}+{parts[0]}'"
    return "two rescorings; combine one with a matching, such as is+rgm"
