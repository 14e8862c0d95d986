"""Comparisons for people (a table on the terminal, Markdown) and for programs (one JSON document)."""

import json
from typing import Any

from pipeline.core.console import stdout
from pipeline.ranking.confidence.intervals import nest
from pipeline.tools.compare.difference import Comparison, FigureRow
from pipeline.tools.compare.regression import SIGNIFICANT

_SHORT = {"image_to_text": "i2t", "text_to_image": "t2i"}
_HEADER = ("metric", "A", "B", "B - A", "95% interval", "p")
_FINE = ("gini", "robin_hood")
_DIGITS = 6


def terminal(comparisons: list[Comparison], resamples: int, seed: int) -> None:
    """One table a criterion; bold where p < 0.05."""
    from rich.markup import escape
    from rich.table import Table

    for one in comparisons:
        table = Table(title=escape(_title(one)), caption=escape(_caption(one, resamples, seed)))
        for name in _HEADER:
            table.add_column(name, justify="left" if name == "metric" else "right", no_wrap=True)
        for row in one.rows:
            significant = row.p is not None and row.p < SIGNIFICANT
            table.add_row(*_cells(row), style="bold" if significant else "")
        stdout.print(table)


def markdown(comparisons: list[Comparison], resamples: int, seed: int) -> str:
    """GitHub-flavoured: a heading, a table and a line of protocol for each criterion."""
    parts = []
    for one in comparisons:
        lines = [f"### {_title(one)}", "", _row(_HEADER), _row(("---", *["---:"] * (len(_HEADER) - 1)))]
        lines += [_row(_cells(row)) for row in one.rows]
        parts.append("\n".join([*lines, "", _caption(one, resamples, seed), ""]))
    return "\n".join(parts)


def document(comparisons: list[Comparison], resamples: int, seed: int) -> str:
    """``{"resamples", "seed", "comparisons": [{"a", "b", "split", "protocol", "ties", "images",
    "image_to_text": {metric: {"a", "b", "difference", "interval", "p"}}, "text_to_image", "rsum",
    "hs_sum"}]}``: keys sorted, numbers finite, interval and p absent where they cannot be had."""
    found = {"resamples": resamples, "seed": seed, "comparisons": [_plain(one) for one in comparisons]}
    return json.dumps(found, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"


def _plain(one: Comparison) -> dict:
    found: dict = {"images": one.images}
    for side, about in (("a", one.a), ("b", one.b)):
        found[side] = {"name": about.name} | {key: about.metrics.get(key) for key in ("inference", "bank")}
    found |= {key: one.b.metrics.get(key) for key in ("split", "protocol", "ties")}
    for row in one.rows:
        numbers = {"a": row.a, "b": row.b, "difference": row.difference}
        cells: dict[str, Any] = {key: _rounded(value) for key, value in numbers.items()}
        if row.interval is not None and row.p is not None:
            cells |= {"interval": [_rounded(end) for end in row.interval], "p": _rounded(row.p)}
        nest(found, row.address, cells)
    return found


def _rounded(value: float) -> float:
    return round(value, _DIGITS) + 0.0  # never -0.0


def _title(one: Comparison) -> str:
    a, b = (f"{side.name} ({side.metrics.get('inference')})" for side in (one.a, one.b))
    return f"A: {a}, B: {b}"


def _bank(metrics: dict) -> str:
    return f"{metrics.get('bank')}{' (transductive)' if metrics.get('transductive') else ''}"


def _caption(one: Comparison, resamples: int, seed: int) -> str:
    banks = [_bank(side.metrics) for side in (one.a, one.b)]
    bank = f"query bank {banks[0]}" if banks[0] == banks[1] else f"query bank {banks[0]} in A, {banks[1]} in B"
    about = one.b.metrics
    return (
        f"{about.get('split')} split, protocol {about.get('protocol')}, ties {about.get('ties')}, {bank}; "
        f"{resamples} draws of {one.images} images with their captions, seed {seed}; "
        "p of each figure by itself, two-sided"
    )


def _cells(row: FigureRow) -> list[str]:
    digits = 3 if row.address[-1].startswith(_FINE) else 2
    name = " ".join([_SHORT.get(part, part) for part in row.address]).replace("hs_sum", "hs-sum")
    cells = [name, f"{row.a:z.{digits}f}", f"{row.b:z.{digits}f}", f"{row.difference:+z.{digits}f}"]
    if row.interval is None:
        return [*cells, "-", "-"]
    low, high = row.interval
    return [*cells, f"{low:+z.{digits}f} to {high:+z.{digits}f}", f"{row.p:.3f}"]


def _row(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
