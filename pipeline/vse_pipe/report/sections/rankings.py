"""All figures of all runs and criteria, in a table that can be sorted."""

from dataclasses import dataclass
from typing import Any

from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.report.formatting import HEADINGS
from vse_pipe.report.pictures import Collector
from vse_pipe.report.reading import RepeatedEvaluation
from vse_pipe.report.results import Evaluation, Group, Results

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


def context(results: Results, collector: Collector) -> dict:
    return {
        "groups": [_table(group) for group in results.groups],
        "heads": [{"label": label, "columns": columns} for label, columns in _HEADS.items()],
        "intervals": any(result.interval for group in results.groups for result in group.evaluations()),
        "matchings": any(result.matching for group in results.groups for result in group.evaluations()),
        "transductive": any(result.transductive for group in results.groups for result in group.evaluations()),
    }


def _table(group: Group) -> dict:
    evaluations = group.evaluations()
    columns = [column for columns in _HEADS.values() for column in columns]
    best = [_best(column, evaluations) for column in columns]
    rows = [
        {
            "run": result.run,
            "inference": result.inference,
            "bank": _bank(result),
            "cells": [_cell(column, mark, result) for column, mark in zip(columns, best, strict=True)],
        }
        for result in evaluations
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


def _bank(result: Evaluation) -> str:
    """``none``, ``train``, ``transductive``, or both for a matching on scores that a bank corrected."""
    bank = result.metrics["bank"]
    if not result.transductive:
        return bank
    return "transductive" if bank in ("none", result.metrics["split"]) else f"{bank}, transductive"


def _cell(column: Column, best: float | None, result: Evaluation) -> dict:
    value = column.value(result)
    return {
        "value": value,
        "digits": column.digits,
        "interval": result.interval_of(column.path),
        "best": value is not None and _rounded(column, value) == best,
    }


def _best(column: Column, evaluations: list[Evaluation]) -> float | None:
    """The best value as printed; None when all rows print the same value."""
    values = {_rounded(column, value) for result in evaluations if (value := column.value(result)) is not None}
    return min(values, key=_ORDERS[column.goal]) if len(values) > 1 else None


def _rounded(column: Column, value: float) -> float:
    return round(value, column.digits)
