"""What an audit says in figures: metrics.json, and the table that the command prints."""

import numpy as np
from numpy import ndarray
from sklearn.metrics import average_precision_score

from vse_pipe.artifacts import audit as artefact
from vse_pipe.audit.evidence import Doubts
from vse_pipe.core import console
from vse_pipe.train.mixture import auc

_DIGITS = 6


def figures(doubts: Doubts, image_count: int, mismatched: ndarray | None) -> dict:
    """The part of metrics.json that follows from the doubts. mismatched: the truth, None where it
    is unknown.

    Pairs that are known to be mismatched are not counted. ``expected`` is the number of mismatches,
    with its 95 % ``interval``, None where the doubts give none. ``ranked`` has the first pairs by
    doubt; auc, average_precision and precision_at_mismatched, of as many pairs as are mismatched,
    follow from the same order. They are None where pairs of one kind are missing."""
    places = np.flatnonzero(doubts.verdicts >= 0)
    odds, count = doubts.odds[places], len(places)
    order = np.argsort(-odds, kind="stable")
    mismatched = None if mismatched is None else mismatched[places]
    expected, interval = doubts.number()
    sizes = {size for size in (10, 100, 1000, 10_000, 100_000, round(expected)) if 0 < size <= count} or {count}
    return {
        "pairs": count,
        "images": image_count,
        "expected": round(expected),
        "interval": _rounded(interval),
        "ranked": [_first(doubts, places, order[:size], mismatched) for size in sorted(sizes)],
        "truth": "unknown" if mismatched is None else "known",
        **({} if mismatched is None else _against_truth(odds, order, mismatched)),
    }


def _against_truth(odds: ndarray, order: ndarray, mismatched: ndarray) -> dict:
    """Equal odds enter together."""
    wrong = int(mismatched.sum())
    precision = average_precision_score(mismatched, odds) if wrong else None
    first = mismatched[order[:wrong]].mean() if wrong else None
    values = {"auc": auc(odds, mismatched), "average_precision": precision, "precision_at_mismatched": first}
    rounded = {name: None if value is None else round(float(value), _DIGITS) for name, value in values.items()}
    return {"mismatched": wrong, **rounded}


def _first(doubts: Doubts, places: ndarray, first: ndarray, mismatched: ndarray | None) -> dict:
    """Shares of mismatches among the ``first`` of ``places``; interval: their number."""
    pairs = places[first]
    return {
        "first": len(first),
        "estimated": round(float(doubts.probability[pairs].mean()), 4),
        "interval": _rounded(doubts.interval(pairs)),
        "precision": None if mismatched is None else round(float(mismatched[first].mean()), 4),
    }


def _rounded(interval: tuple[float, float] | None) -> list[int] | None:
    return None if interval is None else [round(limit) for limit in interval]


_ROWS = (
    ("pairs", "pairs", "{:,}"),
    ("probably mismatched", "expected", "{:,}"),
    ("mismatched in truth", "mismatched", "{:,}"),
    ("AUC", "auc", "{:.3f}"),
    ("average precision", "average_precision", "{:.3f}"),
    ("precision among as many pairs", "precision_at_mismatched", "{:.3f}"),
)


def show(metrics: dict, as_json: bool) -> None:
    """Print the metrics, without figures against an unknown truth."""
    if as_json:
        return console.document(metrics)
    is_run = "run" in metrics
    table = console.ruled()
    table.add_column(f"run {metrics['run']}" if is_run else f"data set {metrics['dataset']}")
    pairs = "training pairs" if is_run else metrics["noise"] or "as prepared"
    table.add_column(pairs, justify="right", no_wrap=True)
    for title, key, form in _ROWS:
        value = "-" if metrics.get(key) is None else form.format(metrics[key])
        if key == "expected":
            value = (value if artefact.is_told(metrics) else "cannot be told") + _range(metrics["interval"])
        if key in metrics:
            table.add_row(title, value)
    for row in metrics["ranked"]:
        true = "" if row["precision"] is None else f", {row['precision'] * row['first']:,.0f} in truth"
        estimate = f"about {row['estimated'] * row['first']:,.0f}{_range(row['interval'])}{true}"
        table.add_row(f"mismatched of the first {row['first']:,} by doubt", estimate)
    for kind, count in metrics.get("findings", {}).items():
        table.add_row(f"findings of kind {kind}", f"{count:,}")
    console.show(table)
    return None


def _range(interval: list[int] | None) -> str:
    return "" if interval is None else f" ({interval[0]:,} to {interval[1]:,})"
