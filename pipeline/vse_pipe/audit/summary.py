"""What an audit of pairs without a run says in figures: metrics.json, and the table that the command prints."""

import numpy as np
from numpy import ndarray

from vse_pipe.artifacts import audit as artefact
from vse_pipe.audit.evidence import Doubts
from vse_pipe.audit.measure import average_precision
from vse_pipe.core import console
from vse_pipe.train.mixture import auc


def figures(doubts: Doubts, image_count: int, mismatched: ndarray | None) -> dict:
    """The part of metrics.json that follows from the doubts. mismatched: the truth, None where it is unknown.
    Pairs that are known to be mismatched are not counted."""
    places = np.flatnonzero(doubts.verdicts >= 0)
    odds, count = doubts.odds[places], len(places)
    order = np.argsort(-odds, kind="stable")
    mismatched = None if mismatched is None else mismatched[places]
    expected, interval = doubts.number()
    sizes = sorted({size for size in (10, 100, 1000, 10_000, 100_000, round(expected)) if 0 < size <= count})
    truth = {}
    if mismatched is not None and 0 < mismatched.sum() < count:
        first = order[: int(mismatched.sum())]
        truth = {
            "mismatched": int(mismatched.sum()),
            "auc": round(auc(odds, mismatched) or 0.0, 6),
            "average_precision": round(average_precision(odds, mismatched) or 0.0, 6),
            "precision_at_mismatched": round(float(mismatched[first].mean()), 6),
        }
    return {
        "pairs": count,
        "images": image_count,
        "expected": round(expected),
        "interval": [round(limit) for limit in interval],
        "together": round(doubts.together, 4),
        "weights": doubts.weights,
        "ranked": [_first(doubts, places, order[:size], mismatched) for size in sizes],
        "truth": "unknown" if mismatched is None else "known",
        **truth,
    }


def _first(doubts: Doubts, places: ndarray, first: ndarray, mismatched: ndarray | None) -> dict:
    """``estimated`` and ``precision``: shares of mismatches among the ``first`` of ``places``; interval: their number."""
    pairs = places[first]
    return {
        "first": len(first),
        "estimated": round(float(doubts.probability[pairs].mean()), 4),
        "interval": [round(limit) for limit in doubts.estimate.number(doubts.odds[pairs[doubts.verdicts[pairs] == 0]])],
        "precision": None if mismatched is None else round(float(mismatched[first].mean()), 4),
    }


_ROWS = (
    ("pairs", "pairs", "{:,}"),
    ("probably mismatched", "expected", "{:,}"),
    ("mismatched in truth", "mismatched", "{:,}"),
    ("AUC", "auc", "{:.3f}"),
    ("average precision", "average_precision", "{:.3f}"),
    ("precision among as many pairs", "precision_at_mismatched", "{:.3f}"),
)


def show_data(metrics: dict, as_json: bool) -> None:
    """Print the metrics. Figures against an unknown truth are left out."""
    if as_json:
        console.document(metrics)
        return
    table = console.ruled()
    table.add_column(f"data set {metrics['dataset']}")
    table.add_column(metrics["noise"] or "as prepared", justify="right", no_wrap=True)
    for title, key, form in _ROWS:
        if key in metrics:
            value = form.format(metrics[key])
            table.add_row(title, _number(value, metrics) if key == "expected" else value)
    for row in metrics["ranked"]:
        true = "" if row["precision"] is None else f", {row['precision'] * row['first']:,.0f} in truth"
        low, high = row["interval"]
        estimate = f"about {row['estimated'] * row['first']:,.0f} ({low:,} to {high:,}){true}"
        table.add_row(f"mismatched of the first {row['first']:,} by doubt", estimate)
    for kind, count in metrics["findings"].items():
        table.add_row(f"findings of kind {kind}", f"{count:,}")
    for run, effect in metrics["leaks"]["recall"].items():
        rest = f"{effect['without']['rsum']:.1f}" if effect["without"] else "nothing is left"
        change = f"{effect['all']['rsum']:.1f} to {rest}"
        table.add_row(f"rsum of {run} without {effect['pictures']} leaked pictures", change)
    console.show(table)


def _number(expected: str, metrics: dict) -> str:
    low, high = metrics["interval"]
    told = expected if artefact.is_told(metrics) else "cannot be told"
    return f"{told} ({low:,} to {high:,})"
