"""evaluate: rank every query of a split under one criterion, both ways, and measure the result."""

import time

import numpy as np
import pyarrow as pa

from pipeline import console, locks, paths, timing
from pipeline.artifacts import evaluation
from pipeline.artifacts._files import whole_folder
from pipeline.artifacts.evaluation import KS
from pipeline.device import resolve
from pipeline.errors import UsageError
from pipeline.evaluate import criteria, protocol, tables
from pipeline.evaluate.outcome import Outcome
from pipeline.evaluate.ranking import Ranking
from pipeline.evaluate.split import Embedded, Split, collapsed
from pipeline.params.typed import Params
from pipeline.registry import near_miss

_DIGITS = 6


def evaluate(params: Params, run: str, inference: str, device: str = "auto") -> dict:
    """Write data/evaluate/<run>/<inference>/ from data/embed/<run>/ and return what metrics.json holds.

    device: auto, cpu, cuda or cuda:N. Recalls are percentages; under ``folds`` every metric is the mean over the folds.
    Lambda of a matching is chosen on the validation split where params.yaml leaves it open. Raises UsageError for an
    unknown run, criterion or device, InputError for embeddings that cannot be ranked, LockedError when another process
    writes the same folder.
    """
    started = time.monotonic()
    if run not in params.runs:
        known = sorted(params.runs)
        raise UsageError(f"unknown run '{run}'{near_miss(run, known) or ';'} known: {', '.join(known)}")
    criterion, target = criteria.parse(inference, params.inference), resolve(device)
    embedded = Embedded.read(paths.embedded(run), run)
    split = embedded.split(params.evaluate.split, target)
    folds = protocol.folds(split, params.evaluate)
    _warn_of_collapse(split, embedded)
    ranking = Ranking(criterion, embedded.similarity(), params.evaluate)
    out = paths.evaluated(run, inference)
    with locks.claim(out):
        if len(criterion.lambdas) > 1:
            ranking.tune(protocol.tuning_folds(embedded.split("val", target), params.evaluate))
        outcomes = ranking.outcomes(folds)
        metrics = {"run": run, **_circumstances(ranking, embedded, len(folds)), **_metrics(outcomes, split)}
        with whole_folder(out) as folder:
            evaluation.write(folder, metrics, *_tables(outcomes, folds))
    timing.record(out, time.monotonic() - started)
    return metrics


def _circumstances(ranking: Ranking, embedded: Embedded, folds: int) -> dict:
    """What the figures must not be quoted without. bank: the queries whose scores went into every other query's result."""
    params, criterion = ranking.params, ranking.criterion
    return {
        "inference": criterion.name,
        "similarity": embedded.images.about["similarity"],
        "split": params.split,
        "protocol": params.protocol,
        "folds": folds,
        "ties": params.ties,
        "bank": params.split if criterion.looks_around else "none",
        "tuned": ranking.tuned,
    }


def _metrics(outcomes: dict[str, list[Outcome]], split: Split) -> dict:
    """Per direction the mean over folds of each metric, and their two sums."""
    found = {}
    for direction, of_folds in outcomes.items():
        rows = [one.metrics() for one in of_folds]
        found[direction] = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}

    def total(kind: str) -> float:
        return round(sum(values[f"{kind}@{k}"] for values in found.values() for k in KS), _DIGITS)

    sums = {"rsum": total("r"), "hs_sum": total("skew")}
    for direction, values in found.items():
        queries, items = split.ids(direction)
        found[direction] = {name: round(value, _DIGITS) for name, value in values.items()}
        found[direction] |= {"queries": len(queries), "items": len(items)}
    return {**found, **sums}


def _tables(outcomes: dict[str, list[Outcome]], folds: list[Split]) -> tuple[pa.Table, pa.Table]:
    ranks, occurrence = [], []
    for direction, of_folds in outcomes.items():
        for index, (one, fold) in enumerate(zip(of_folds, folds, strict=True)):
            queries, items = fold.ids(direction)
            ranks.append(tables.rank_table(one, direction, index, queries, items, fold.clusters(direction)))
            occurrence.append(tables.occurrence_table(one, direction, index, items))
    return pa.concat_tables(ranks), pa.concat_tables(occurrence)


def _warn_of_collapse(split: Split, embedded: Embedded) -> None:
    for name, vectors in [("images", split.images), ("captions", split.captions)]:
        if len(vectors) > 1 and collapsed(vectors):
            console.warn(
                f"{embedded.folder}: the embeddings of the {name} are all but the same vector; "
                "the model has collapsed and its ranks mean nothing"
            )
