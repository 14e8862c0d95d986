"""Comparisons for people (a table on the terminal, Markdown) and for programs (one JSON document)."""

import json
from typing import Any

from vse_pipe.core.console import stdout
from vse_pipe.ranking.comparison import Comparison, FigureRow, Method, paired
from vse_pipe.ranking.intervals import nest
from vse_pipe.report.engine.formatting import markdown_row, spread

_SHORT = {"image_to_text": "i2t", "text_to_image": "t2i"}
_HEADER = ("metric", "A", "B", "B - A", "95% interval", "p")
_BREAKING = ("A", "B", "95% interval")  # figures with spaces, which a narrow terminal has on two lines instead of cut
_FINE = ("gini", "robin_hood")
_DIGITS = 6


def terminal(comparisons: list[Comparison], resamples: int, seed: int) -> None:
    """One table a criterion; bold where p < 0.05."""
    from rich.markup import escape
    from rich.table import Table

    for one in comparisons:
        table = Table(title=escape(_title(one)), caption=escape(_caption(one, resamples, seed)))
        for name in _header(one):
            table.add_column(name, justify="left" if name == "metric" else "right", no_wrap=name not in _BREAKING)
        for row in one.rows:
            table.add_row(*_cells(row), style="bold" if row.significant else "")
        stdout.print(table)


def markdown(comparisons: list[Comparison], resamples: int, seed: int) -> str:
    """GitHub-flavoured: a heading, a table and a line of protocol for each criterion."""
    parts = []
    for one in comparisons:
        lines = [
            f"### {_title(one)}",
            "",
            markdown_row(_header(one)),
            markdown_row(("---", *["---:"] * (len(_HEADER) - 1))),
        ]
        lines += [markdown_row(_cells(row)) for row in one.rows]
        parts.append("\n".join([*lines, "", _caption(one, resamples, seed), ""]))
    return "\n".join(parts)


def document(comparisons: list[Comparison], resamples: int, seed: int) -> str:
    """``{"resamples", "seed", "comparisons": [{"a", "b", "split", "protocol", "ties", "images",
    "image_to_text": {metric: {"a", "b", "difference", "interval", "p"}}, "text_to_image", "rsum",
    "hs_sum"}]}``: keys sorted, numbers finite, interval and p absent where they cannot be had. Of runs with seeds also
    "seeds" in "a" and "b", "paired", and a figure's "a_sd" and "b_sd" over them; with several B's "p_holm"."""
    found = {"resamples": resamples, "seed": seed, "comparisons": [_plain(one) for one in comparisons]}
    return json.dumps(found, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"


def _plain(one: Comparison) -> dict:
    found: dict = {"images": one.images}
    for side, about in (("a", one.a), ("b", one.b)):
        found[side] = {"name": about.name} | {key: about.metrics.get(key) for key in ("inference", "bank")}
        found[side] |= {"seeds": _seeds(about)} if _seeds(about) else {}
    found |= {"paired": paired(one.a, one.b)} if _seeds(one.a) or _seeds(one.b) else {}
    found |= {key: one.b.metrics.get(key) for key in ("split", "protocol", "ties")}
    for row in one.rows:
        numbers = {"a": row.a, "b": row.b, "difference": row.difference}
        cells: dict[str, Any] = {key: _rounded(value) for key, value in numbers.items()}
        if row.interval is not None and row.p is not None:
            cells |= {"interval": [_rounded(end) for end in row.interval], "p": _rounded(row.p)}
        cells |= {"p_holm": _rounded(row.holm)} if row.holm is not None else {}
        cells |= {f"{side}_sd": _rounded(sd) for side, sd in zip("ab", row.spread, strict=True) if sd is not None}
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
        f"{resamples} draws of {one.images} images with their captions, seed {seed}; {_trainings(one)}"
        f"p of each figure by itself, two-sided{_correction(one)}"
    )


def _header(one: Comparison) -> tuple[str, ...]:
    return (*_HEADER[:-1], "p (Holm)") if one.at_once > 1 else _HEADER


def _correction(one: Comparison) -> str:
    return f", corrected for the {one.at_once} comparisons with A (Holm)" if one.at_once > 1 else ""


def _seeds(side: Method) -> list[int]:
    return [int(seed) for seed in side.models if seed]


def _trainings(one: Comparison) -> str:
    """Whose chance the intervals hold besides that of the images."""
    if not _seeds(one.a) and not _seeds(one.b):
        return ""
    if paired(one.a, one.b):
        return f"mean ± standard deviation over seeds {', '.join(map(str, _seeds(one.a)))}, paired; "
    told = ", ".join(f"{len(side)} in {name}" for name, side in (("A", one.a), ("B", one.b)))
    lone = " and ".join(name for name, side in (("A", one.a), ("B", one.b)) if len(side) == 1)
    doubt = f"; of {lone} one model, whose chance in training is in no interval" if lone else ""
    return f"mean ± standard deviation over trainings, {told}, not paired{doubt}; "


def _cells(row: FigureRow) -> list[str]:
    digits = 3 if row.address[-1].startswith(_FINE) else 2
    name = " ".join([_SHORT.get(part, part) for part in row.address]).replace("hs_sum", "hs-sum")
    means = [spread(mean, sd, digits) for mean, sd in zip((row.a, row.b), row.spread, strict=True)]
    cells = [name, *means, f"{row.difference:+z.{digits}f}"]
    if row.interval is None:
        return [*cells, "-", "-"]
    low, high = row.interval
    return [*cells, f"{low:+z.{digits}f} to {high:+z.{digits}f}", f"{row.decisive:.3f}"]
