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

    ``expected`` is the number of mismatches, with its 95 % ``interval``, None where the doubts give
    none. ``ranked`` has the first pairs by doubt; auc, average_precision and
    precision_at_mismatched, of as many pairs as are mismatched, follow from the same order. They
    are None where pairs of one kind are missing."""
    order, count = np.argsort(-doubts.odds, kind="stable"), len(doubts.odds)
    expected, interval = doubts.total()
    sizes = {size for size in (10, 100, 1000, 10_000, 100_000, round(expected)) if 0 < size <= count} or {count}
    return {
        "pairs": count,
        "images": image_count,
        "expected": round(expected),
        "interval": interval,
        "ranked": [_first(doubts, order[:size], mismatched) for size in sorted(sizes)],
        "truth": "unknown" if mismatched is None else "known",
        **({} if mismatched is None else _against_truth(doubts.odds, order, mismatched)),
    }


def _against_truth(odds: ndarray, order: ndarray, mismatched: ndarray) -> dict:
    """Equal odds enter together."""
    wrong = int(mismatched.sum())
    precision = average_precision_score(mismatched, odds) if wrong else None
    first = mismatched[order[:wrong]].mean() if wrong else None
    values = {"auc": auc(odds, mismatched), "average_precision": precision, "precision_at_mismatched": first}
    rounded = {name: None if value is None else round(float(value), _DIGITS) for name, value in values.items()}
    return {"mismatched": wrong, **rounded}


def _first(doubts: Doubts, pairs: ndarray, mismatched: ndarray | None) -> dict:
    """Shares of mismatches among some pairs; interval: their number."""
    expected, interval = doubts.number(pairs)
    return {
        "first": len(pairs),
        "estimated": round(expected / len(pairs), 4),
        "interval": interval,
        "precision": None if mismatched is None else round(float(mismatched[pairs].mean()), 4),
    }


_ROWS = (
    ("pairs", "pairs", "{:,}"),
    ("mismatched in truth", "mismatched", "{:,}"),
    ("AUC", "auc", "{:.3f}"),
    ("average precision", "average_precision", "{:.3f}"),
    ("precision among as many pairs", "precision_at_mismatched", "{:.3f}"),
)


def show(metrics: dict, as_json: bool) -> None:
    """Print the metrics, without figures against an unknown truth."""
    if as_json:
        return console.document(metrics)
    table = console.ruled()
    table.add_column(f"run {metrics['run']}" if "run" in metrics else f"data set {metrics['dataset']}")
    table.add_column(metrics.get("noise") or "pairs", justify="right", no_wrap=True)
    expected = f"{metrics['expected']:,}" if artefact.is_told(metrics) else "cannot be told"
    table.add_row("probably mismatched", expected + _range(metrics["interval"]))
    for title, key, form in _ROWS:
        if metrics.get(key) is not None:
            table.add_row(title, form.format(metrics[key]))
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
