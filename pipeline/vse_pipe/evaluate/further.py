"""Figures from graded judgements of pairs and from labels of pictures."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import torch

from vse_pipe.artifacts.evaluation import DIRECTIONS, JUDGED, PLAUSIBLE
from vse_pipe.core.errors import InputError
from vse_pipe.evaluate.judged_data import Further, Labels
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking import evaluation
from vse_pipe.ranking.evaluation import Depths, means
from vse_pipe.ranking.metrics import graded
from vse_pipe.ranking.metrics.graded import Graded, kendall
from vse_pipe.ranking.metrics.recall import places
from vse_pipe.ranking.scores import Scores
from vse_pipe.ranking.split import Split
from vse_pipe.ranking.trial import Trial, Tuned

Measured = tuple[dict, dict[str, pa.Table]]
_TABLES = {"judged": JUDGED, "plausible": PLAUSIBLE}
_DIGITS = 6


def measured(
    further: Further,
    chosen: dict[str, Tuned],
    folds: Sequence[Split],
    ground: dict[str, list[Trial]],
    params: EvaluateParams,
    comparable: bool,
) -> Measured:
    """The figures for the metrics document, and tables by file name. A criterion with a matching has no ranking and
    gets none.

    comparable: scores of different queries are on one scale. Under ``folds`` a query is ranked among the items of its
    fold. Raises InputError when judgements or labels name no ranked item."""
    measures: dict[str, tuple[dict, Callable]] = {}
    if further.graded is not None:
        about = {"file": params.judgements, "correct_above": params.correct_above}
        measures["judged"] = about, partial(_judged, further.graded, comparable)
    if further.labels is not None:
        measures["plausible"] = {"file": params.labels}, partial(_plausible, further.labels)
    metrics: dict[str, dict] = {}
    tables: dict[str, list[pa.Table]] = {}
    for direction in DIRECTIONS:
        if chosen[direction].criterion.matching:
            continue
        trials = [
            (index, fold, trial.under(chosen[direction].criterion))
            for index, (fold, trial) in enumerate(zip(folds, ground[direction], strict=True))
        ]
        for name, (about_measure, measure) in measures.items():
            figures, rows = measure(direction, trials, params)
            metrics.setdefault(name, about_measure)[direction] = _rounded(figures)
            tables.setdefault(_TABLES[name], []).append(rows)
    return metrics, {name: pa.concat_tables(rows) for name, rows in tables.items()}


def _judged(
    judgements: Graded,
    comparable: bool,
    direction: str,
    trials: list[tuple[int, Split, Scores]],
    params: EvaluateParams,
) -> tuple[dict, pa.Table]:
    depths = Depths.including(params.recall, params.ndcg)
    rows, parts, agreed = [], [], []
    for fold, split, scores in trials:
        queries, items = split.sides(direction)
        cells = judgements.cells(direction, queries, items)
        if ranked := evaluation.rank_graded(scores, cells, judgements.above, params.ties, depths):
            parts.append(ranked)
            hits = {f"hit_{k}": of_k for k, of_k in ranked.hits.items()}
            figures = {"correct": ranked.correct.astype(np.int32), "rank": ranked.ranks + 1, **hits, **ranked.measures}
            rows.append(_table(direction, fold, queries[ranked.rows], figures))
        agreed.append(
            (evaluation.pair_scores(scores, cells), cells.grades, _foreign(split, direction, cells.rows, cells.columns))
        )
    if not parts:
        raise InputError(
            f"evaluate.judgements {params.judgements}: no pair with a grade above {judgements.above:g} is among the {direction} "
            f"queries and items that are ranked; {len(judgements.grades)} judgements were read"
        )
    pair_scores, grades, foreign = (np.concatenate(values) for values in zip(*agreed, strict=True))
    # Pairs of another split, of different folds, or with an image that was left out are not ranked.
    unranked = len(judgements.grades) - len(grades)
    counted = {"unranked": unranked} if unranked else {}
    return {**_means(parts), **_agreement(pair_scores, grades, foreign, comparable), **counted}, pa.concat_tables(rows)


def _means(parts: Sequence[evaluation.Ranked]) -> dict:
    """Over all queries of all folds."""
    ranks = np.concatenate([part.ranks for part in parts])
    hits, measures = (
        {key: np.concatenate([getattr(part, name)[key] for part in parts]) for key in getattr(parts[0], name)}
        for name in ("hits", "measures")
    )
    return {"queries": len(ranks), **means(ranks, measures, hits)}


def _foreign(split: Split, direction: str, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Does the caption of the pair describe another image?"""
    images, captions = (rows, columns) if direction == "image_to_text" else (columns, rows)
    return split.image_ids[images] != split.caption_images[captions]


def _agreement(scores: np.ndarray, grades: np.ndarray, foreign: np.ndarray, comparable: bool) -> dict:
    """Over all judgements, and over those of captions that describe another picture."""
    kinds = {"kendall": np.full(len(scores), True), "kendall_foreign": foreign}
    return {
        name: {"judgements": int(mask.sum()), **(kendall(scores[mask], grades[mask]) if comparable else {})}
        for name, mask in kinds.items()
    }


def _plausible(
    labels: Labels, direction: str, trials: list[tuple[int, Split, Scores]], params: EvaluateParams
) -> tuple[dict, pa.Table]:
    rows, shares = [], []
    for fold, split, scores in trials:
        sides = (split.image_ids, split.caption_images)
        if not all(np.isin(side, labels.images).any() for side in sides):
            continue
        queries, items = (
            places(labels.images, side) for side in (sides if direction == "image_to_text" else sides[::-1])
        )
        precisions = np.concatenate(list(_of_blocks(labels, scores, queries, items, params)))
        labelled = ~np.isnan(precisions[:, 0])
        shares.append(precisions[labelled])
        columns = {f"r_precision_{most}": precisions[labelled, most] for most in graded.DIFFERENCES}
        rows.append(_table(direction, fold, split.sides(direction)[0][labelled], columns))
    if not shares:
        raise InputError(f"evaluate.labels {params.labels}: no image that is ranked has a label there")
    joined = np.concatenate(shares)
    figures = 100.0 * joined.mean(axis=0)
    named = {f"r_precision_{most}": figures[most] for most in graded.DIFFERENCES}
    return {"queries": len(joined), "pmrp": figures.mean(), **named}, pa.concat_tables(rows)


def _of_blocks(
    labels: Labels, scores: Scores, queries: np.ndarray, items: np.ndarray, params: EvaluateParams
) -> Iterator[np.ndarray]:
    """One row a query, NaN if its image has no label. Items without a label are not in the gallery, as in the authors'
    code. queries, items: rows of ``labels``, -1 for none."""
    gallery = torch.from_numpy(np.flatnonzero(items >= 0))
    marks = torch.from_numpy(labels.has)

    def shares(rows: slice) -> np.ndarray:
        strip = scores.strip(rows)
        distances = graded.distances(marks[queries[rows]].to(strip.device), marks[items[gallery]].to(strip.device))
        precisions = graded.r_precisions(strip[:, gallery.to(strip.device)], distances, params.ties).cpu().numpy()
        return np.where(queries[rows, None] >= 0, precisions, np.nan)

    for _, block in scores.over_strips(shares):
        yield block


def _table(direction: str, fold: int, queries: np.ndarray, columns: dict[str, np.ndarray]) -> pa.Table:
    heading = {
        "direction": pa.repeat(direction, len(queries)),
        "fold": pa.repeat(pa.scalar(fold, pa.int32()), len(queries)),
        "query_id": pa.array(queries),
    }
    return pa.table(heading | {name: pa.array(values) for name, values in columns.items()})


def _rounded(figures: dict) -> dict:
    return {
        name: _rounded(value)
        if isinstance(value, dict)
        else round(value, _DIGITS)
        if isinstance(value, float)
        else value
        for name, value in figures.items()
    }
