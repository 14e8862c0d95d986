"""Judged claims for people (a table on the terminal, Markdown) and for programs (one JSON document)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vse_pipe.core.console import document, stdout
from vse_pipe.core.errors import MissingResource, missing
from vse_pipe.project.params.typed import Params
from vse_pipe.report import claims as report_claims
from vse_pipe.report.claims import FAILS, HEADER, HOLDS, ClaimsFile, Judged, caption, cells, counted
from vse_pipe.report.formatting import markdown_row

_STYLES = {HOLDS: "green", FAILS: "red"}


def terminal(file: ClaimsFile, found: list[Judged], resamples: int, seed: int) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title=escape(f"{file.title}: {counted(found)}"), caption=escape(caption(resamples, seed)), show_lines=True
    )
    for place, name in enumerate(_stacked(HEADER)):
        table.add_column(name, overflow="fold", no_wrap=place == 2)  # the numbers
    for one in found:
        table.add_row(*map(escape, _stacked(cells(one))), style=_STYLES.get(one.verdict, ""))
    stdout.print(table)


def _stacked(nine: Sequence[str]) -> list[str]:
    """Four columns of up to three lines: claim and source, the sides, the numbers, the verdict. Nine would be a few letters wide."""
    return ["\n".join(nine[start:end]) for start, end in ((0, 2), (2, 5), (5, 8), (8, 9))]


def markdown(file: ClaimsFile, found: list[Judged], resamples: int, seed: int) -> None:
    lines = [HEADER, ["---"] * len(HEADER), *map(cells, found)]
    rows = map(markdown_row, lines)
    stdout.file.write(
        f"### {file.title}\n\n{counted(found)}\n\n" + "\n".join(rows) + f"\n\n{caption(resamples, seed)}\n"
    )


def as_document(file: ClaimsFile, found: list[Judged], resamples: int, seed: int) -> None:
    """``{"title", "resamples", "seed", "claims": [{"text", "source", "figure", "says", "margin", "left", "right", "verdict",
    "why", "left_values", "right_values", "difference", "interval", "p"}]}``, the last five absent where there are none."""
    claims = [_plain(one) for one in found]
    document({"title": file.title, "resamples": resamples, "seed": seed, "claims": claims})


def _plain(one: Judged) -> dict[str, Any]:
    claim = one.claim.model_dump(include={"text", "source", "figure", "says", "margin"})
    plain: dict[str, Any] = {**claim, "left": one.left, "right": one.right, "verdict": one.verdict, "why": one.reason}
    if one.difference is not None and one.mean is not None:
        sides = {"left_values": one.difference.b, "right_values": one.difference.a}
        plain |= {name: np.round(values, 6).tolist() for name, values in sides.items()} | {
            "difference": round(one.mean, 6)
        }
    if one.interval is not None and one.p is not None:
        plain |= {"interval": [round(end, 6) for end in one.interval], "p": round(one.p, 6)}
    return plain


def find(name: str, start: Path) -> Path:
    """A packaged file of claims by name, or a file as seen from ``start``. Raises MissingResource with the near miss."""
    path = start / name
    if path.is_file() or name not in report_claims.PACKAGED:
        if not path.is_file():
            raise MissingResource(missing(f"{name}: no such file of claims", name, report_claims.PACKAGED))
        return path
    return report_claims.PACKAGED[name]


def claims(
    params: Params, path: Path, resamples: int, seed: int, skip_unknown: bool
) -> tuple[ClaimsFile, list[Judged]]:
    """The file and a verdict on each of its claims. Raises as ``schema.read`` and ``verdict.judged``."""
    file = report_claims.read(path)
    return file, report_claims.judged(params, file, resamples, seed, skip_unknown)
