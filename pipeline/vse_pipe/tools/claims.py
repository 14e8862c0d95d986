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


def terminal(file: ClaimsFile, verdicts: list[Judged], resamples: int, seed: int) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title=escape(f"{file.title}: {counted(verdicts)}"), caption=escape(caption(resamples, seed)), show_lines=True
    )
    for place, name in enumerate(_stacked(HEADER)):
        table.add_column(name, overflow="fold", no_wrap=place == 2)  # the column of numbers
    for verdict in verdicts:
        table.add_row(*map(escape, _stacked(cells(verdict))), style=_STYLES.get(verdict.verdict, ""))
    stdout.print(table)


def _stacked(cells: Sequence[str]) -> list[str]:
    """Nine cells as four cells of up to three lines: claim and source, sides, numbers, verdict. Nine columns are too narrow."""
    return ["\n".join(cells[start:end]) for start, end in ((0, 2), (2, 5), (5, 8), (8, 9))]


def markdown(file: ClaimsFile, verdicts: list[Judged], resamples: int, seed: int) -> None:
    lines = [HEADER, ["---"] * len(HEADER), *map(cells, verdicts)]
    rows = map(markdown_row, lines)
    stdout.file.write(
        f"### {file.title}\n\n{counted(verdicts)}\n\n" + "\n".join(rows) + f"\n\n{caption(resamples, seed)}\n"
    )


def as_document(file: ClaimsFile, verdicts: list[Judged], resamples: int, seed: int) -> None:
    """``{"title", "resamples", "seed", "claims": [{"text", "source", "figure", "says", "margin", "left", "right", "verdict",
    "why", "left_values", "right_values", "difference", "interval", "p"}]}``; the last five are optional."""
    claims = [_plain(verdict) for verdict in verdicts]
    document({"title": file.title, "resamples": resamples, "seed": seed, "claims": claims})


def _plain(verdict: Judged) -> dict[str, Any]:
    claim = verdict.claim.model_dump(include={"text", "source", "figure", "says", "margin"})
    plain: dict[str, Any] = {
        **claim,
        "left": verdict.left,
        "right": verdict.right,
        "verdict": verdict.verdict,
        "why": verdict.reason,
    }
    if verdict.difference is not None and verdict.mean is not None:
        sides = {"left_values": verdict.difference.b, "right_values": verdict.difference.a}
        plain |= {name: np.round(values, 6).tolist() for name, values in sides.items()} | {
            "difference": round(verdict.mean, 6)
        }
    if verdict.interval is not None and verdict.p is not None:
        plain |= {"interval": [round(end, 6) for end in verdict.interval], "p": round(verdict.p, 6)}
    return plain


def find(name: str, start: Path) -> Path:
    """A packaged file of claims by name, or a path relative to ``start``. Raises MissingResource with a similar name."""
    path = start / name
    if path.is_file() or name not in report_claims.PACKAGED:
        if not path.is_file():
            raise MissingResource(missing(f"{name}: no such file of claims", name, report_claims.PACKAGED))
        return path
    return report_claims.PACKAGED[name]


def claims(
    params: Params, path: Path, resamples: int, seed: int, skip_unknown: bool
) -> tuple[ClaimsFile, list[Judged]]:
    """The file and a verdict on each of its claims. Raises as ``report.claims.read`` and ``report.claims.judged``."""
    file = report_claims.read(path)
    return file, report_claims.judged(params, file, resamples, seed, skip_unknown)
