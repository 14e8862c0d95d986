"""All figures of all runs and criteria, in a table that can be sorted."""

from dataclasses import dataclass
from typing import Any

from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.report.formatting import HEADINGS
from vse_pipe.report.pictures import Collector
from vse_pipe.report.reading import RepeatedEvaluation
from vse_pipe.report.results import Evaluation, Group, Results

TITLE = "All runs and criteria"
_ORDERS = {"most": lambda value: -value, "least": lambda value: value, "zero": abs}


@dataclass(frozen=True)
class Column:
    """path: keys into metrics.json of evaluate. goal: most, least, or zero for the value nearest to 0. Negative skewness is no
    merit: a matching has it if all items except one have the same N_k."""

    label: str
    path: tuple[str, ...]
    digits: int
    goal: str

    def value(self, evaluation: Evaluation) -> float | None:
        """The figure; None if the criterion does not define it."""
        value: Any = evaluation.metrics
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


def context(results: Results, collector: Collector) -> dict:
    return {
        "groups": [_table(group) for group in results.groups],
        "heads": [{"label": label, "columns": columns} for label, columns in _HEADS.items()],
        "intervals": any(evaluation.interval for group in results.groups for evaluation in group.evaluations()),
        "matchings": any(evaluation.matching for group in results.groups for evaluation in group.evaluations()),
        "transductive": any(evaluation.transductive for group in results.groups for evaluation in group.evaluations()),
    }


def _table(group: Group) -> dict:
    evaluations = group.evaluations()
    columns = [column for columns in _HEADS.values() for column in columns]
    best = [_best(column, evaluations) for column in columns]
    rows = [
        {
            "run": evaluation.run,
            "inference": evaluation.inference,
            "bank": _bank(evaluation),
            "cells": [_cell(column, mark, evaluation) for column, mark in zip(columns, best, strict=True)],
        }
        for evaluation in evaluations
    ]
    return {"dataset": group.catalogue.name, "rows": rows, "repeated": _repeated(group)}


def _repeated(group: Group) -> list[dict]:
    """The runs with seeds: by criterion the rsum of each seed, the mean, the standard deviations and the interval."""
    return [
        {
            "run": run.name,
            "seeds": run.seeds,
            "rows": [
                (
                    name,
                    [seed.evaluations[name].rsum for seed in run.repetitions],
                    mean.rsum,
                    mean.deviations,
                    mean.interval,
                )
                for name, mean in run.evaluations.items()
                if isinstance(mean, RepeatedEvaluation)
            ],
        }
        for run in group.methods
        if run.repetitions
    ]


def _bank(evaluation: Evaluation) -> str:
    """``none``, ``train``, ``transductive``, or ``train, transductive`` for a matching on scores that a bank corrected."""
    bank = evaluation.metrics["bank"]
    if not evaluation.transductive:
        return bank
    return "transductive" if bank in ("none", evaluation.metrics["split"]) else f"{bank}, transductive"


def _cell(column: Column, best: float | None, evaluation: Evaluation) -> dict:
    value = column.value(evaluation)
    return {
        "value": value,
        "digits": column.digits,
        "interval": evaluation.interval_of(column.path),
        "best": value is not None and _rounded(column, value) == best,
    }


def _best(column: Column, evaluations: list[Evaluation]) -> float | None:
    """The best value as printed; None when all rows print the same value."""
    values = {_rounded(column, value) for evaluation in evaluations if (value := column.value(evaluation)) is not None}
    return min(values, key=_ORDERS[column.goal]) if len(values) > 1 else None


def _rounded(column: Column, value: float) -> float:
    return round(value, column.digits)
