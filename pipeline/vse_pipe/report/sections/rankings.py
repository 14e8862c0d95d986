"""Every figure of every run under every criterion, in one table that can be sorted."""

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
    """label: as printed; path: keys into metrics.json of evaluate; goal: most, least, or zero for the value nearest to
    0. Skewness far below 0 is no merit: a matching that gives all items but one the same N_k has it."""

    label: str
    path: tuple[str, ...]
    digits: int
    goal: str

    def value(self, evaluation: Evaluation) -> float | None:
        """None where the criterion does not define the figure."""
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
# What sums both directions comes first: the last columns are out of sight on most screens.
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
    """Of each run with seeds: their names, and by criterion rsum of each, mean, standard deviation and interval."""
    return [
        {
            "run": run.name,
            "seeds": run.seeds,
            "rows": [
                (
                    name,
                    [seed.evaluations[name].rsum for seed in run.repetitions],
                    evaluation.rsum,
                    evaluation.deviations,
                    evaluation.interval,
                )
                for name, evaluation in run.evaluations.items()
                if isinstance(evaluation, RepeatedEvaluation)
            ],
        }
        for run in group.methods
        if run.repetitions
    ]


def _bank(evaluation: Evaluation) -> str:
    """``none``, ``train``, ``transductive``, or both where a matching lies on scores that another bank corrected."""
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
    """The best value as printed; None where all rows print the same, since a mark on each says nothing."""
    values = {_rounded(column, value) for evaluation in evaluations if (value := column.value(evaluation)) is not None}
    return min(values, key=_ORDERS[column.goal]) if len(values) > 1 else None


def _rounded(column: Column, value: float) -> float:
    return round(value, column.digits)
