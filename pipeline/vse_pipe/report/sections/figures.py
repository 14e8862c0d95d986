"""Sections of figures: the summary, all runs and criteria, judgements, published figures, and claims."""

from dataclasses import dataclass
from typing import Any

from vse_pipe.artifacts.evaluation import DIRECTIONS, few_items
from vse_pipe.papers import catalogue, overlay
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.report import claims as report_claims
from vse_pipe.report.formatting import HEADINGS
from vse_pipe.report.pictures import Collector
from vse_pipe.report.reading import localised
from vse_pipe.report.results import BASELINE, Evaluation, Group, Results, RunResult

_TIES = {
    "pessimistic": "Ties count against the query: an item that scores the same as the correct one ranks before it.",
    "average": "Ties are shared: an item that scores the same as the correct one counts as half a rank before it.",
    "optimistic": "Ties count for the query: an item that scores the same as the correct one ranks behind it.",
}


def summary(results: Results, collector: Collector) -> dict:
    return {
        "groups": [_summary_group(group) for group in results.groups],
        "split": results.params.evaluate.split,
        "inferences": results.params.grid.inferences,
        "protocol": protocol(results.params.evaluate),
        "ties": _TIES[results.params.evaluate.ties],
    }


def protocol(evaluate: EvaluateParams) -> str:
    if evaluate.protocol == "full":
        return f"Every query of the {evaluate.split} split ranks all items of that split."
    if evaluate.protocol == "first":
        return f"Every query of the {evaluate.split} split's first {evaluate.fold_size:,} images ranks all items of theirs."
    return (
        f"The {evaluate.split} split is cut into consecutive folds of {evaluate.fold_size:,} images; a query ranks "
        "the items of its own fold, and every figure is the mean over the folds."
    )


def _summary_group(group: Group) -> dict:
    method, best = group.plain_method, group.best_method.best
    head = method.baseline
    strict = [result for result in group.evaluations() if not result.transductive]
    return {
        "dataset": group.catalogue.name,
        "head": head,
        "best": best,
        "gain": best.rsum - group.best_method.baseline.rsum,
        "baseline": group.best_method.baseline.inference,
        "count": len(group.evaluations()),
        "tuned": any(best.metrics["tuned"].values()),
        "kinds": {run.name: run.kind for run in group.methods},
        "strict": max(strict, key=lambda result: result.rsum, default=None),
        "few": few_items(head.metrics),
        "mixed": len({result.metrics.get("data") for run in group.runs for result in run.evaluations.values()}) > 1,
        "repeated": {run.name: len(run.repetitions) for run in group.methods if run.repetitions},
        "sizes": {direction: (len(head.queries(direction)), len(head.items(direction))) for direction in DIRECTIONS},
        "matrix": _matrix(group, best),
        "transductive": {result.inference for result in group.evaluations() if result.transductive},
    }


def _matrix(group: Group, best: Evaluation) -> dict:
    """rsum of each run under each criterion, with the gain over the baseline of the run. The longer list has the rows,
    so that the table stays narrow."""

    def cell(run: RunResult, result: Evaluation | None) -> dict | None:
        if result is None:
            return None
        gain = None if result is run.baseline else result.rsum - run.baseline.rsum
        return {"one": result, "gain": gain, "best": result is best}

    runs = [run.name for run in group.methods]
    criteria = list(dict.fromkeys(name for run in group.methods for name in run.evaluations))
    cells = [[cell(run, run.evaluations.get(name)) for name in criteria] for run in group.methods]
    if len(criteria) > len(runs):
        columns = zip(*cells, strict=True)
        return {"corner": "Criterion", "heads": runs, "rows": list(zip(criteria, columns, strict=True))}
    return {"corner": "Run", "heads": criteria, "rows": list(zip(runs, cells, strict=True))}


_ORDERS = {"most": lambda value: -value, "least": lambda value: value, "zero": abs}


@dataclass(frozen=True)
class Column:
    """path: keys into metrics.json of evaluate. goal: most, least, or zero for the value nearest to 0. Negative
    skewness is no merit: a matching has it if all items except one have the same N_k."""

    label: str
    path: tuple[str, ...]
    digits: int
    goal: str

    def value(self, result: Evaluation) -> float | None:
        """The figure; None if the criterion does not define it."""
        value: Any = result.metrics
        for key in self.path:
            value = value.get(key)
            if value is None:
                return None
        return value


_SIDE = [
    ("R@1", "r@1", 1, "most"),
    ("R@5", "r@5", 1, "most"),
    ("R@10", "r@10", 1, "most"),
    ("Med r", "med_r", 1, "least"),
    ("Mean r", "mean_r", 1, "least"),
    ("Skew", "skew@10", 2, "zero"),
]
# The sums of both directions come first, because most screens hide the last columns.
_HEADS = {
    "Both": [Column("rsum", ("rsum",), 1, "most"), Column("hs-sum", ("hs_sum",), 2, "zero")],
    **{
        HEADINGS[side]: [Column(label, (side, key), digits, goal) for label, key, digits, goal in _SIDE]
        for side in DIRECTIONS
    },
}


def rankings(results: Results, collector: Collector) -> dict:
    evaluations = [result for group in results.groups for result in group.evaluations()]
    return {
        "groups": [_ranking_table(group) for group in results.groups],
        "heads": [{"label": label, "columns": columns} for label, columns in _HEADS.items()],
        "intervals": any(result.interval for result in evaluations),
        "matchings": any(result.matching for result in evaluations),
        "transductive": any(result.transductive for result in evaluations),
    }


def _ranking_table(group: Group) -> dict:
    evaluations = group.evaluations()
    columns = [column for columns in _HEADS.values() for column in columns]
    best = [_best(column, evaluations) for column in columns]
    rows = [
        {
            "run": result.run,
            "inference": result.inference,
            "bank": _bank(result),
            "cells": [_ranking_cell(column, mark, result) for column, mark in zip(columns, best, strict=True)],
        }
        for result in evaluations
    ]
    return {"dataset": group.catalogue.name, "rows": rows, "repeated": _repeated(group)}


def _repeated(group: Group) -> list[dict]:
    """The runs with seeds: by criterion the rsum of each seed, the mean, the standard deviations and the interval."""
    rows = []
    for run in group.methods:
        if run.repetitions:
            cells = [
                (
                    name,
                    [seed.evaluations[name].rsum for seed in run.repetitions],
                    mean.rsum,
                    mean.deviations,
                    mean.interval,
                )
                for name, mean in run.evaluations.items()
            ]
            rows.append({"run": run.name, "seeds": run.seeds, "rows": cells})
    return rows


def _bank(result: Evaluation) -> str:
    """``none``, ``train``, ``transductive``, or both for a matching on scores that a bank corrected."""
    bank = result.metrics["bank"]
    if not result.transductive:
        return bank
    return "transductive" if bank in ("none", result.metrics["split"]) else f"{bank}, transductive"


def _ranking_cell(column: Column, best: float | None, result: Evaluation) -> dict:
    value = column.value(result)
    return {
        "value": value,
        "digits": column.digits,
        "interval": result.interval_of(column.path),
        "best": value is not None and round(value, column.digits) == best,
    }


def _best(column: Column, evaluations: list[Evaluation]) -> float | None:
    """The best value as printed; None when all rows print the same value."""
    values = {round(value, column.digits) for result in evaluations if (value := column.value(result)) is not None}
    return min(values, key=_ORDERS[column.goal]) if len(values) > 1 else None


_JUDGED = {"R@1": "r@1", "mAP@R": "map@r", "R-precision": "r_precision", "Graded nDCG@10": "graded_ndcg@10"}
_PLAUSIBLE = {
    "PMRP": "pmrp",
    "no other label": "r_precision_0",
    "at most 1": "r_precision_1",
    "at most 2": "r_precision_2",
}
_KENDALL = {"tau-b": "tau_b", "tau-c": "tau_c"}


def judged(results: Results, collector: Collector) -> dict | None:
    """None when no evaluation has such figures."""
    groups = [(group, _judged_rows(group, "judged"), _judged_rows(group, "plausible")) for group in results.groups]
    if not any(judged or plausible for _, judged, plausible in groups):
        return None
    documents = (result.metrics.get("judged") for group in results.groups for result in group.evaluations())
    return {
        "groups": [
            {"dataset": group.catalogue.name, "judged": judged, "plausible": plausible}
            for group, judged, plausible in groups
            if judged or plausible
        ],
        "headings": [HEADINGS[direction] for direction in DIRECTIONS],
        "columns": {"judged": [*_JUDGED, *_KENDALL], "plausible": list(_PLAUSIBLE)},
        "above": next((document["correct_above"] for document in documents if document), None),
        "labelled": any(plausible for _, _, plausible in groups),
    }


def _judged_rows(group: Group, key: str) -> list[dict]:
    return [
        {
            "run": result.run,
            "inference": result.inference,
            "sides": [_judged_cells(result, key, direction) for direction in DIRECTIONS],
        }
        for result in group.evaluations()
        if key in result.metrics
    ]


def _judged_cells(result: Evaluation, key: str, direction: str) -> dict:
    """queries; cells: (value, digits), with value None if undefined."""
    figures = result.metrics[key][direction]
    cells = [(figures[name], 1) for name in (_JUDGED if key == "judged" else _PLAUSIBLE).values()]
    if key == "judged":
        cells += [(figures["kendall"].get(name), 3) for name in _KENDALL.values()]
    return {"queries": figures["queries"], "cells": cells}


def by_group(results: Results, collector: Collector) -> dict | None:
    """R@K by group of queries of each run under its baseline; of a run with seeds, its first model. None without
    ``evaluate.by``."""
    groups = [
        {"dataset": group.catalogue.name, "runs": runs}
        for group in results.groups
        if (runs := [_by_group(run) for run in group.first_models if "by_group" in run.baseline.metrics])
    ]
    return {"groups": groups, "headings": HEADINGS} if groups else None


def _by_group(run: RunResult) -> dict:
    figures = run.baseline.metrics["by_group"]
    tables = [(direction, figures[direction]) for direction in DIRECTIONS if direction in figures]
    recalls = sorted((name for name in tables[0][1][0] if name.startswith("r@")), key=lambda name: int(name[2:]))
    rows = [
        (direction, [(row, [(row[name], row["intervals"].get(name)) for name in recalls]) for row in rows])
        for direction, rows in tables
    ]
    return {
        "run": run.name,
        "inference": run.baseline.inference,
        "column": figures["column"],
        "recalls": recalls,
        "tables": rows,
    }


def published(results: Results, collector: Collector) -> dict | None:
    """Published figures next to measured ones, for each run that names a row. Raises UsageError for an unknown row."""
    rows = [_published(results, run, run.row) for run in results.methods() if run.row]
    return {"compared": rows} if rows else None


def _published(results: Results, run: RunResult, row: str) -> dict:
    """A table for each common criterion or for the localisation, without differences where these mean nothing;
    cautions: differences from the setting of the row."""
    localisation, params = localised(results, run), results.params
    nodes = [params.runs[name] for name in params.trainings(run.name) if name in params.runs]
    trained = [(node, params.features[node.features]) for node in nodes]
    measured = [(f"ranked with {name}", result.metrics, name) for name, result in run.evaluations.items()]
    if localisation:
        measured.append(("localised", localisation, BASELINE))
    tables = []
    for ranking, metrics, inference in measured:
        if rows := overlay.compared_figures(row, metrics, inference, trained):
            entry = overlay.rows_of_model(row)[inference]
            paper = catalogue.load(entry.paper)
            title = f"{paper.title} ({paper.venue}), row {entry.id}"
            reasons = overlay.incomparable(row, metrics, inference, trained)
            tables.append({"ranking": ranking, "title": title, "rows": rows, "reasons": reasons})
    cautions = overlay.cautions(row, {**run.baseline.metrics, **(localisation or {})}, run.params)
    return {"run": run.name, "kind": run.kind, "row": row, "tables": tables, "cautions": cautions}


# The same number as for the intervals of evaluate.
_RESAMPLES = 1000


def claims(results: Results, collector: Collector) -> dict | None:
    path = results.params.report.claims
    if path is None:
        return None
    file = report_claims.read(path)
    # A missing run is no error: the page shows the existing runs.
    verdicts = report_claims.judged(results.params, file, _RESAMPLES, results.params.seed, skip_unknown=True)
    rows = [report_claims.cells(verdict) for verdict in verdicts]
    counted, caption = report_claims.counted(verdicts), report_claims.caption(_RESAMPLES, results.params.seed)
    return {"title": file.title, "header": report_claims.HEADER, "rows": rows, "counted": counted, "caption": caption}
