"""Measure criteria: documents and tables of ``vse_pipe.artifacts.evaluation``."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from vse_pipe.artifacts import evaluation
from vse_pipe.artifacts.evaluation import DIGITS, heading, rounded
from vse_pipe.core import console
from vse_pipe.core.errors import InputError, PipelineError, UsageError
from vse_pipe.evaluate.task import Task
from vse_pipe.ranking import criteria
from vse_pipe.ranking.criteria import Criterion, Trial, Tuned
from vse_pipe.ranking.intervals import intervals
from vse_pipe.ranking.outcomes import Depths, Outcome, folds
from vse_pipe.ranking.split import Split


@dataclass(frozen=True)
class Result:
    """metrics: finite numbers, strings and nested dictionaries. tables: of artifacts.evaluation by
    file name; that of relaxation only where a lambda was chosen, others only with judgements or
    labels. choices, trials: by direction, the criterion with its parameters, and the scores of each
    fold."""

    criterion: Criterion
    metrics: dict
    tables: dict[str, pa.Table]
    choices: dict[str, Tuned] = field(default_factory=dict, repr=False)
    trials: dict[str, list[Trial]] = field(default_factory=dict, repr=False)

    @property
    def ranks(self) -> pa.Table:
        return self.tables[evaluation.RANKS]

    @property
    def occurrence(self) -> pa.Table:
        return self.tables[evaluation.OCCURRENCE]


def results(task: Task, chosen: Sequence[Criterion]) -> Iterator[tuple[str, Result | PipelineError]]:
    """Yield each criterion's name with its result, or with the reason why these data do not allow
    it. Scores that fit into ``evaluate.memory`` are computed once for all criteria.

    Recalls and other shares are percentages; under ``folds`` every metric is the mean over the
    folds. The reason is ``Untuned`` where nothing can choose its parameters."""
    measurement = Measurement(task, chosen)
    for criterion in chosen:
        try:
            yield criterion.name, measurement.result(criterion)
        except (InputError, UsageError) as error:
            yield criterion.name, error


class Measurement:
    """A task under the options of ``evaluate``. All criteria share its folds and their scores."""

    def __init__(self, task: Task, chosen: Sequence[Criterion]) -> None:
        self.task, self.options = task, task.options
        self.folds = folds(task.split, task.options)
        self.depths = Depths.including(task.options.recall, task.options.ndcg)
        self.sets = 2 if any(map(self.needs_validation, chosen)) else 1
        memory = task.options.memory
        self.trials = task.trials or criteria.trials(self.folds, task.bank, task.similarity, memory, self.sets)

    @cached_property
    def validation(self) -> dict[str, list[Trial]]:
        return self.task.validation_trials(self.sets)

    def needs_validation(self, criterion: Criterion) -> bool:
        return bool(self.task.open_parameters(criterion))

    def result(self, criterion: Criterion) -> Result:
        """Raises Untuned, InputError and UsageError where these data do not allow the criterion."""
        self.task.require_parameters(criterion)
        validation = self.validation if self.needs_validation(criterion) else {}
        choices = {
            direction: criteria.choose_parameters(criterion, validation.get(direction, []), self.options.tune)
            for direction in evaluation.DIRECTIONS
        }
        folds = console.track(
            zip(*self.trials.values(), strict=True), len(self.folds), f"ranking under {criterion.name}"
        )
        rankings = [
            criteria.rank_fold(list(choices.values()), sides, self.options.ties, self.depths) for sides in folds
        ]
        outcomes = dict(zip(evaluation.DIRECTIONS, map(list, zip(*rankings, strict=True)), strict=True))
        tables = _tables(outcomes, self.folds)
        metrics = {
            **self.task.about,
            **self._further(criterion, choices, tables),
            **self._circumstances(criterion),
            "parameters": {direction: choice.parameters() for direction, choice in choices.items()},
            "tuned": {direction: choice.chosen for direction, choice in choices.items()},
            "notes": _notes(outcomes),
            "intervals": self._intervals(tables),
            **_metrics(outcomes, self.folds, self.task.split),
        }
        if len(criterion.lambdas) > 1:
            tables[evaluation.RELAXATION] = _relaxation(criterion, choices)
        return Result(criterion, metrics, tables, choices, self.trials)

    def _further(
        self, criterion: Criterion, choices: dict[str, Tuned], tables: dict[str, pa.Table]
    ) -> dict[str, object]:
        """Figures from judgements, whose table ``tables`` gets."""
        task = self.task
        figures: dict[str, object] = {}
        if task.graded:
            from vse_pipe.evaluate.judgements import measure_judgements  # pandas takes half a second to import

            figures, judged = measure_judgements(
                task.graded, self.options, task.is_comparable, choices, self.folds, self.trials
            )
            tables |= judged
        if task.tuned_on and task.open_parameters(criterion):
            figures["tuned_on"] = task.tuned_on
        return figures

    def _circumstances(self, criterion: Criterion) -> dict[str, object]:
        """The setting of the figures. bank: the queries that correct the scores. transductive:
        results depend on other queries."""
        bank, options = self.task.bank, self.options
        corrected = criterion.needs_bank and bank.is_transductive
        return {
            "inference": criterion.name,
            "split": options.split,
            "protocol": options.protocol,
            "folds": len(self.folds),
            "ties": options.ties,
            "bank": bank.name if criterion.needs_bank else "none",
            "transductive": criterion.matching is not None or corrected,
        }

    def _intervals(self, tables: dict[str, pa.Table]) -> dict:
        ranks, occurrence = tables[evaluation.RANKS], tables[evaluation.OCCURRENCE]
        resamples = self.options.resamples
        return rounded(intervals(ranks, occurrence, resamples, self.task.seed)) if resamples else {}


def _notes(by_direction: dict[str, list[Outcome]]) -> dict[str, dict[str, float]]:
    """The largest of each note over the folds, by direction."""
    notes: dict[str, dict[str, float]] = {}
    for direction, rows in by_direction.items():
        for key, value in [pair for row in rows for pair in row.notes.items()]:
            largest = notes.setdefault(direction, {})
            largest[key] = max(value, largest.get(key, value))
    return notes


def _relaxation(criterion: Criterion, choices: dict[str, Tuned]) -> pa.Table:
    """Recall against lambda, a row for each direction, K and lambda."""
    tables, ks, lambdas = [], evaluation.KS, np.array(criterion.lambdas, float)
    for direction, choice in choices.items():
        assert choice.recalls is not None
        columns = {
            "direction": pa.repeat(direction, len(ks) * len(lambdas)),
            "k": pa.array(np.repeat(np.array(ks, np.int32), len(lambdas))),
            "lambda": pa.array(np.tile(lambdas, len(ks))),
            "validation": pa.array(choice.recalls.ravel()),
            "chosen": pa.array(np.concatenate([lambdas == choice.lambdas[k] for k in ks])),
        }
        tables.append(pa.table(columns, schema=evaluation.RELAXATION_SCHEMA))
    return pa.concat_tables(tables)


def _metrics(outcomes: dict[str, list[Outcome]], folds: list[Split], split: Split) -> dict:
    """Per direction the mean of each metric over folds, None if a fold leaves it undefined, and the
    two sums. items: of one fold. queries: of all folds. unjudged: queries without a judged item."""
    means: dict[str, dict[str, float]] = {}
    for direction, of_folds in outcomes.items():
        rows = [outcome.metrics() for outcome in of_folds]
        means[direction] = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}

    def number_or_none(value: float) -> float | None:
        return None if math.isnan(value) else round(value, DIGITS)

    def total(kind: str) -> float | None:
        return number_or_none(sum(values[f"{kind}@{k}"] for values in means.values() for k in evaluation.KS))

    metrics: dict = {"rsum": total("r"), "hs_sum": total("skew")}
    for direction, values in means.items():
        queries = sum(len(fold.ids(direction)[0]) for fold in folds)
        metrics[direction] = {name: number_or_none(value) for name, value in values.items()}
        metrics[direction] |= {"queries": queries, "items": len(folds[0].ids(direction)[1])}
        if split.relevance is not None:
            metrics[direction]["unjudged"] = sum(len(fold.sides(direction)[0]) for fold in folds) - queries
    return metrics


def _tables(outcomes: dict[str, list[Outcome]], folds: list[Split]) -> dict[str, pa.Table]:
    """The tables of ranks and of occurrence."""
    ranks, occurrence = [], []
    for direction, of_folds in outcomes.items():
        for index, (outcome, fold) in enumerate(zip(of_folds, folds, strict=True)):
            ranks.append(_rank_table(outcome, direction, index, fold))
            occurrence.append(_occurrence_table(outcome, direction, index, fold.ids(direction)[1]))
    return {evaluation.RANKS: pa.concat_tables(ranks), evaluation.OCCURRENCE: pa.concat_tables(occurrence)}


def _rank_table(outcome: Outcome, direction: str, number: int, fold: Split) -> pa.Table:
    """One row per query."""
    queries, items = fold.ids(direction)
    count = len(queries)
    offsets = np.concatenate([[0], outcome.lengths.cumsum()]).astype(np.int32)
    columns = {
        **heading(direction, number, count),
        "query_id": pa.array(queries),
        "image_id": pa.array(fold.clusters(direction)),
        "rank": _or_nulls(None if outcome.ranks is None else outcome.ranks + 1, count),
        **{f"hit_{k}": pa.array(hits) for k, hits in outcome.hits.items()},
        **{name: _or_nulls(outcome.measures.get(name), count) for name in {**evaluation.MEASURES, **outcome.measures}},
        "top": pa.ListArray.from_arrays(
            offsets, pa.array(items[outcome.top]), type=evaluation.RANKS_SCHEMA.field("top").type
        ),
    }
    return pa.table(columns, schema=evaluation.with_further(evaluation.RANKS_SCHEMA, columns))


def _or_nulls(values: np.ndarray | None, rows: int) -> pa.Array:
    return pa.nulls(rows, pa.float64()) if values is None else pa.array(values)


def _occurrence_table(outcome: Outcome, direction: str, number: int, items: np.ndarray) -> pa.Table:
    """One row per item. items: int64 ids, in the order of the scores' columns."""
    counts = {f"n_{k}": pa.array(n.astype(np.int32)) for k, n in outcome.occurrence.items()}
    columns = {**heading(direction, number, len(items)), "item_id": pa.array(items), **counts}
    return pa.table(columns, schema=evaluation.OCCURRENCE_SCHEMA)
