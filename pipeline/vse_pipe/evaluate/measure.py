"""Measure criteria: metrics documents and the Parquet tables of ``vse_pipe.artifacts.evaluation``."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from vse_pipe.artifacts import evaluation as artefact
from vse_pipe.artifacts.evaluation import DIGITS, heading, rounded
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core import console
from vse_pipe.core.errors import InputError, PipelineError, UsageError
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking import calibration, evaluation
from vse_pipe.ranking import criteria as ranking_criteria
from vse_pipe.ranking.cascade import Cascade
from vse_pipe.ranking.criteria import Criterion, Ranking, Scan, Trial, Tuned, rank_fold, recalls, trials
from vse_pipe.ranking.fragments import Fused
from vse_pipe.ranking.graded import Further
from vse_pipe.ranking.intervals import intervals
from vse_pipe.ranking.scores import Similarity
from vse_pipe.ranking.split import BankSource, Split, disjoint

if TYPE_CHECKING:
    from vse_pipe.evaluate.groups import QueryGroups


def rank_table(
    outcome: evaluation.Outcome, direction: str, fold: int, queries: np.ndarray, items: np.ndarray, clusters: np.ndarray
) -> pa.Table:
    """One row per query. queries, items: int64 ids, in the order of the scores' rows and columns. clusters: for each
    query the int64 id of its image."""
    count = len(queries)
    offsets = np.concatenate([[0], outcome.lengths.cumsum()]).astype(np.int32)
    columns = {
        **heading(direction, fold, count),
        "query_id": pa.array(queries),
        "image_id": pa.array(clusters),
        "rank": _or_nulls(None if outcome.ranks is None else outcome.ranks + 1, count),
        **{f"hit_{k}": pa.array(hits) for k, hits in outcome.hits.items()},
        **{name: _or_nulls(outcome.measures.get(name), count) for name in {**artefact.MEASURES, **outcome.measures}},
        "top": pa.ListArray.from_arrays(
            offsets, pa.array(items[outcome.top]), type=artefact.RANKS_SCHEMA.field("top").type
        ),
    }
    return pa.table(columns, schema=artefact.with_further(artefact.RANKS_SCHEMA, columns))


def occurrence_table(outcome: evaluation.Outcome, direction: str, fold: int, items: np.ndarray) -> pa.Table:
    """One row per item. items: int64 ids, in the order of the scores' columns."""
    counts = {f"n_{k}": pa.array(n.astype(np.int32)) for k, n in outcome.occurrence.items()}
    columns = {**heading(direction, fold, len(items)), "item_id": pa.array(items), **counts}
    return pa.table(columns, schema=artefact.OCCURRENCE_SCHEMA)


def _or_nulls(values: np.ndarray | None, rows: int) -> pa.Array:
    return pa.nulls(rows, pa.float64()) if values is None else pa.array(values)


@dataclass(frozen=True)
class Inputs:
    """ranked: the split to measure. bank: the queries that correct its scores. tuning, tuning_bank: the split and the
    bank that choose parameters; tuning is None without validation data, for the reason ``untuned``. about: content of
    every metrics document. seed: for the bootstrap. names: of ids that are text. trials: of scores that are given; None:
    they are computed from the vectors. tuned_on: the data set of ``tuning``, if it is another one."""

    ranked: Split
    bank: BankSource
    tuning: Split | None
    tuning_bank: BankSource
    similarity: Similarity
    about: dict[str, object]
    seed: int = 0
    names: TextIds | None = None
    further: Further | None = None
    groups: "QueryGroups | None" = None
    trials: dict[str, list[Trial]] | None = None
    tuned_on: str | None = None
    untuned: str = "there is no validation data"


@dataclass(frozen=True)
class Result:
    """metrics: finite numbers, strings and nested dictionaries. tables: of artifacts.evaluation by file name; that of
    relaxation only where a lambda was chosen, others only with judgements or labels. tunings, trials: by direction, the
    criterion with its parameters, and the scores of each fold."""

    criterion: Criterion
    metrics: dict
    tables: dict[str, pa.Table]
    tunings: dict[str, Tuned] = field(default_factory=dict, repr=False)
    trials: dict[str, list[Trial]] = field(default_factory=dict, repr=False)

    @property
    def ranks(self) -> pa.Table:
        return self.tables[artefact.RANKS]

    @property
    def occurrence(self) -> pa.Table:
        return self.tables[artefact.OCCURRENCE]


class Untuned(UsageError):
    """Nothing can choose the parameters of a criterion."""


def results(
    inputs: Inputs, criteria: Sequence[Criterion], params: EvaluateParams
) -> Iterator[tuple[str, Result | PipelineError]]:
    """Yield each criterion's name with its result, or with the reason why these data do not allow it. Scores that fit
    into ``params.memory`` are computed once for all criteria.

    Recalls and other shares are percentages; under ``folds`` every metric is the mean over the folds. Raises InputError
    when no criterion can be computed and not only for want of parameters, for which the reason is ``Untuned``."""
    folds = evaluation.folds(inputs.ranked, params)
    is_curved = any(is_calibrated(criterion, inputs.similarity, params) for criterion in criteria)
    is_tuned = [bool(criterion.open_parameters(params.tune)) for criterion in criteria]
    sets = 2 if is_curved or any(is_tuned) else 1
    fold_trials = inputs.trials or trials(folds, inputs.bank, inputs.similarity, params.memory, sets)
    tuning: dict[str, list[Trial]] = {}
    depths = evaluation.Depths.including(params.recall, params.ndcg)
    failed: list[PipelineError] = []
    for criterion, to_tune in zip(criteria, is_tuned, strict=True):
        try:
            require_parameters(inputs, criterion, params)
            curved = is_calibrated(criterion, inputs.similarity, params)
            if (to_tune or curved) and not tuning:
                tuning = tuning_trials(inputs, params, sets)
            tunings = {
                side: ranking_criteria.choose_parameters(criterion, tuning.get(side, []), params.tune)
                for side in artefact.DIRECTIONS
            }
            calibrations = _calibrated(inputs, tunings, folds, fold_trials, tuning, params) if curved else {}
            rankings = []
            for sides in console.track(
                zip(*fold_trials.values(), strict=True), len(folds), f"ranking under {criterion.name}"
            ):
                rankings.append(rank_fold(list(tunings.values()), sides, params.ties, depths))
            result = _result(inputs, criterion, tunings, rankings, folds, fold_trials, params, calibrations)
        except (InputError, UsageError) as error:
            failed.append(error)
            wrong = [reason for reason in failed if not isinstance(reason, Untuned)]
            if wrong and len(failed) == len(criteria):
                raise wrong[0] from error
            yield criterion.name, error
        else:
            yield criterion.name, result


def require_parameters(inputs: Inputs, criterion: Criterion, params: EvaluateParams) -> None:
    """Raises Untuned when parameters of the criterion are open and there are no validation data."""
    names = criterion.open_parameters(params.tune)
    if names and inputs.tuning is None:
        fixed = ", or evaluate.tune: false" if params.tune else ""
        raise Untuned(f"{inputs.untuned}; give {', '.join(names)}{fixed}")


def tuned_by_validation(
    inputs: Inputs, chosen: Sequence[Criterion], params: EvaluateParams
) -> tuple[list[Criterion], EvaluateParams]:
    """Validation data choose every parameter that was not given, unless ``evaluate.tune`` was given."""
    if inputs.tuning is None or "tune" in params.model_fields_set:
        return list(chosen), params
    pinned = [each.with_options(each.rescoring.params.pinned()) for each in chosen]
    return pinned, params.model_copy(update={"tune": True})


def is_comparable(similarity: Similarity) -> bool:
    """Are scores of different queries on one scale? Ranks and standardised scores are not."""
    return not isinstance(similarity, Fused | Cascade)


def is_calibrated(criterion: Criterion, similarity: Similarity, params: EvaluateParams) -> bool:
    """Is a probability fitted to the scores of the criterion? A matching has no scores."""
    return params.calibrate != "none" and not criterion.matching and is_comparable(similarity)


def tuning_trials(inputs: Inputs, params: EvaluateParams, sets: int = 1) -> dict[str, list[Trial]]:
    """The validation folds that choose parameters, by direction. sets: see ``trials``.

    Raises InputError without validation data, and when the ranked split or the bank shares items with them."""
    if inputs.tuning is None:
        raise InputError(f"{inputs.untuned}, so nothing can choose parameters; give them, such as inference.rgm.lam")
    disjoint(inputs.tuning, inputs.ranked, "validation data", "split")
    disjoint(inputs.tuning_bank.split, inputs.tuning, "validation data", "bank")
    folds = evaluation.tuning_folds(inputs.tuning, params)
    return trials(folds, inputs.tuning_bank, inputs.similarity, params.memory, sets)


def _result(
    inputs: Inputs,
    criterion: Criterion,
    tunings: dict[str, Tuned],
    rankings: list[list[Ranking]],
    folds: list[Split],
    fold_trials: dict[str, list[Trial]],
    params: EvaluateParams,
    calibrations: dict,
) -> Result:
    by_direction = dict(zip(artefact.DIRECTIONS, zip(*rankings, strict=True), strict=True))
    outcomes = {direction: [outcome for outcome, _, _ in rows] for direction, rows in by_direction.items()}
    ranks, occurrence = _tables(outcomes, folds)
    figures: dict = {}
    tables = {artefact.RANKS: ranks, artefact.OCCURRENCE: occurrence}
    if inputs.further:
        from vse_pipe.evaluate.judgements import measure_judgements  # pandas, as groups

        comparable = is_comparable(inputs.similarity)
        figures, judged = measure_judgements(inputs.further, tunings, folds, fold_trials, params, comparable)
        tables |= judged
    if inputs.tuned_on and criterion.open_parameters(params.tune):
        figures["tuned_on"] = inputs.tuned_on
    if inputs.groups:
        from vse_pipe.evaluate import groups

        figures["by_group"] = groups.measured(inputs.groups, ranks, occurrence, params.resamples, inputs.seed)
    drawn = intervals(ranks, occurrence, params.resamples, inputs.seed) if params.resamples else {}
    metrics = {
        **inputs.about,
        **figures,
        **calibrations,
        **_circumstances(inputs, criterion, params, len(folds)),
        "parameters": {direction: tuned.parameters() for direction, tuned in tunings.items()},
        "tuned": {direction: tuned.chosen for direction, tuned in tunings.items()},
        "notes": _notes(by_direction),
        "intervals": rounded(drawn),
        **_metrics(outcomes, folds, inputs.ranked),
    }
    scans = {direction: [scan for _, _, scan in rows if scan] for direction, rows in by_direction.items()}
    if len(criterion.lambdas) > 1:
        tables[artefact.RELAXATION] = _relaxation(criterion, tunings, scans)
    return Result(criterion, metrics, tables, tunings, fold_trials)


def _notes(by_direction: dict[str, tuple[Ranking, ...]]) -> dict[str, dict[str, float]]:
    """The largest of each note over the folds, by direction."""
    notes: dict[str, dict[str, float]] = {}
    for direction, rows in by_direction.items():
        for key, value in [pair for _, noted, _ in rows for pair in noted.items()]:
            largest = notes.setdefault(direction, {})
            largest[key] = max(value, largest.get(key, value))
    return notes


def _calibrated(
    inputs: Inputs,
    tunings: dict[str, Tuned],
    folds: list[Split],
    ranked: dict[str, list[Trial]],
    tuning: dict[str, list[Trial]],
    params: EvaluateParams,
) -> dict:
    """The calibration by direction, for the metrics document."""
    measured = {}
    for direction, tuned in tunings.items():
        fit, sample = (
            calibration.candidates([(trial.item_by_item(tuned.criterion), trial.truth) for trial in trials[direction]])
            for trials in (tuning, ranked)
        )
        clusters = np.concatenate([fold.clusters(direction) for fold in folds])
        measured[direction] = calibration.measured(
            params.calibrate, fit, sample, clusters, params.resamples, inputs.seed
        )
    return {"calibration": measured}


def _relaxation(criterion: Criterion, tunings: dict[str, Tuned], scans: dict[str, list[Scan]]) -> pa.Table:
    """Recall against lambda, a row for each direction, K and lambda."""
    tables, ks, lambdas = [], artefact.KS, np.array(criterion.lambdas, float)
    for direction, tuned in tunings.items():
        assert tuned.recalls is not None
        ranked = recalls(scans[direction]).ravel()
        columns = {
            "direction": pa.repeat(direction, len(ks) * len(lambdas)),
            "k": pa.array(np.repeat(np.array(ks, np.int32), len(lambdas))),
            "lambda": pa.array(np.tile(lambdas, len(ks))),
            "validation": pa.array(tuned.recalls.ravel()),
            "ranked": pa.array(ranked, mask=np.isnan(ranked)),
            "chosen": pa.array(np.concatenate([lambdas == tuned.lambdas[k] for k in ks])),
        }
        tables.append(pa.table(columns, schema=artefact.RELAXATION_SCHEMA))
    return pa.concat_tables(tables)


def _circumstances(inputs: Inputs, criterion: Criterion, params: EvaluateParams, folds: int) -> dict:
    """The setting of the figures. bank: the queries that correct the scores. transductive: results depend on other
    queries."""
    corrected = criterion.needs_bank and inputs.bank.is_transductive
    return {
        "inference": criterion.name,
        "split": params.split,
        "protocol": params.protocol,
        "folds": folds,
        "ties": params.ties,
        "bank": inputs.bank.name if criterion.needs_bank else "none",
        "transductive": criterion.matching is not None or corrected,
    }


def _metrics(outcomes: dict[str, list[evaluation.Outcome]], folds: list[Split], split: Split) -> dict:
    """Per direction the mean of each metric over folds, None if a fold leaves it undefined, and the two sums. items: of
    one fold. queries: of all folds. unjudged: queries without a judged item."""
    means: dict[str, dict[str, float]] = {}
    for direction, of_folds in outcomes.items():
        rows = [outcome.metrics() for outcome in of_folds]
        means[direction] = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}

    def number_or_none(value: float) -> float | None:
        return None if math.isnan(value) else round(value, DIGITS)

    def total(kind: str) -> float | None:
        return number_or_none(sum(values[f"{kind}@{k}"] for values in means.values() for k in artefact.KS))

    metrics: dict = {"rsum": total("r"), "hs_sum": total("skew")}
    for direction, values in means.items():
        queries = sum(len(fold.ids(direction)[0]) for fold in folds)
        metrics[direction] = {name: number_or_none(value) for name, value in values.items()}
        metrics[direction] |= {"queries": queries, "items": len(folds[0].ids(direction)[1])}
        if split.relevance is not None:
            metrics[direction]["unjudged"] = sum(fold.unjudged(direction) for fold in folds)
    return metrics


def _tables(outcomes: dict[str, list[evaluation.Outcome]], folds: list[Split]) -> tuple[pa.Table, pa.Table]:
    ranks, occurrence = [], []
    for direction, of_folds in outcomes.items():
        for index, (outcome, fold) in enumerate(zip(of_folds, folds, strict=True)):
            queries, items = fold.ids(direction)
            ranks.append(rank_table(outcome, direction, index, queries, items, fold.clusters(direction)))
            occurrence.append(occurrence_table(outcome, direction, index, items))
    return pa.concat_tables(ranks), pa.concat_tables(occurrence)
