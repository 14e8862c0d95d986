"""vse-pipe papers."""

import json
from typing import Annotated

import typer
from typer import Argument, Option

from vse_pipe.commands import _help
from vse_pipe.commands._project import AsJson, enter_root, undo
from vse_pipe.commands._project import overrides as _overrides
from vse_pipe.core.errors import UsageError


def papers(
    paper: Annotated[
        str | None, Argument(help="the name of a paper (default: all)", show_default=False, autocompletion=_help.papers)
    ] = None,
    row: Annotated[
        str | None,
        Argument(
            help="a row of its tables, such as 2.12, or a variant of a row, such as 2.12:code", show_default=False
        ),
    ] = None,
    apply: Annotated[
        bool, Option("--apply", help="write the parameters of the row, and the values of --set, into params.yaml")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List papers with known tables, the rows of a paper, or the parameters that repeat a row."""
    if row is None and apply:
        raise UsageError("--apply needs a paper and a row, for example: vse-pipe papers hal-aaai2020 2.12 --apply")
    if apply and as_json:
        raise UsageError("--apply and --json exclude each other")
    if row is None:
        _list(paper, as_json)
    elif paper is not None and apply:
        _apply(paper, row)
    elif paper is not None:
        _show(paper, row, as_json)


def _list(paper: str | None, as_json: bool) -> None:
    from vse_pipe.papers import listing

    if as_json:
        _document(listing.papers() if paper is None else listing.rows(paper))
    elif paper is None:
        listing.show_papers(listing.papers())
    else:
        listing.show_rows(paper)


def _show(paper: str, row: str, as_json: bool) -> None:
    from vse_pipe.papers import catalogue, listing
    from vse_pipe.papers.overlay import overlay
    from vse_pipe.project.params.document import with_overrides

    values = with_overrides(overlay(paper, row), _overrides, "the row's overlay")
    for section, entries in values.items():
        if section != "seed" and not isinstance(entries, dict):
            raise UsageError(f"--set: {section}: expected a mapping of values, got {entries!r}")
    if as_json:
        _document({"replace": "nodes", **values})
        return
    typer.echo(listing.text(catalogue.find(paper, row), values), nl=False)


def _apply(paper: str, row: str) -> None:
    import tempfile
    from pathlib import Path

    from vse_pipe.core.console import say
    from vse_pipe.papers import catalogue, listing, overlay
    from vse_pipe.project.params import overlay as overlays
    from vse_pipe.project.paths import PARAMS

    values, entry = overlay.overlay(paper, row), catalogue.find(paper, row)
    enter_root()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "row.yaml"
        path.write_text(listing.text(entry, values), encoding="utf-8")
        advice = undo(PARAMS)
        overlays.apply(PARAMS, str(path), _overrides, [overlay.row_problems])
    say(f"{PARAMS} now describes {entry.marker} as run {overlay.run_name(entry)}; `dvc repro` runs it{advice}")


def _document(content: object) -> None:
    typer.echo(json.dumps(content, indent=2, allow_nan=False))
