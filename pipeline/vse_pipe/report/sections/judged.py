"""Figures from judgements and from labels, if evaluations have them."""

from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.report.formatting import HEADINGS
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import Evaluation, Group, Results

_JUDGED = {"R@1": "r@1", "mAP@R": "map@r", "R-precision": "r_precision", "Graded nDCG@10": "graded_ndcg@10"}
_PLAUSIBLE = {
    "PMRP": "pmrp",
    "no other label": "r_precision_0",
    "at most 1": "r_precision_1",
    "at most 2": "r_precision_2",
}
_KENDALL = {"tau-b": "tau_b", "tau-c": "tau_c"}


def context(results: Results, collector: Collector) -> dict | None:
    """None when no evaluation has such figures."""
    groups = [(group, _rows(group, "judged"), _rows(group, "plausible")) for group in results.groups]
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


def _rows(group: Group, key: str) -> list[dict]:
    return [
        {
            "run": result.run,
            "inference": result.inference,
            "sides": [_cells(result, key, direction) for direction in DIRECTIONS],
        }
        for result in group.evaluations()
        if key in result.metrics
    ]


def _cells(result: Evaluation, key: str, direction: str) -> dict:
    """queries; cells: (value, digits), with value None if undefined."""
    figures = result.metrics[key][direction]
    cells = [(figures[name], 1) for name in (_JUDGED if key == "judged" else _PLAUSIBLE).values()]
    if key == "judged":
        cells += [(figures["kendall"].get(name), 3) for name in _KENDALL.values()]
    return {"queries": figures["queries"], "cells": cells}
