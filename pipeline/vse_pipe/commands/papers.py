"""vse-pipe papers."""

import json
from typing import Annotated

import typer

from vse_pipe.commands import _help
from vse_pipe.commands._project import AsJson, enter_root, undo
from vse_pipe.commands._project import overrides as _overrides
from vse_pipe.core.errors import UsageError


def papers(
    paper: Annotated[
        str | None,
        typer.Argument(help="the name of a paper (default: all)", show_default=False, autocompletion=_help.papers),
    ] = None,
    row: Annotated[
        str | None,
        typer.Argument(
            help="a row of its tables, such as 2.12, or a variant of a row, such as 2.12:code", show_default=False
        ),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="write the parameters of the row, and the values of --set, into params.yaml")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List papers with known tables, the rows of a paper, or the parameters that repeat a row."""
    if row is None and apply:
        raise UsageError("--apply needs a paper and a row, for example: vse-pipe papers hal-aaai2020 2.12 --apply")
    if apply and as_json:
        raise UsageError("--apply and --json exclude each other")
    if paper is None:
        _list(as_json)
    elif row is None:
        _rows(paper, as_json)
    elif apply:
        _apply(paper, row)
    else:
        _show(paper, row, as_json)


def _list(as_json: bool) -> None:
    from vse_pipe.papers import listing

    if as_json:
        _document(listing.papers())
    else:
        listing.show_papers(listing.papers())


def _rows(paper: str, as_json: bool) -> None:
    from vse_pipe.papers import listing

    if as_json:
        _document(listing.rows(paper))
    else:
        listing.show_rows(paper)


def _show(paper: str, row: str, as_json: bool) -> None:
    from vse_pipe.papers import catalogue, listing
    from vse_pipe.papers.overlay import overlay as overlay_overlay
    from vse_pipe.project.params.document import with_overrides

    found = with_overrides(overlay_overlay(paper, row), _overrides, "the row's overlay")
    for section, values in found.items():
        if section != "seed" and not isinstance(values, dict):
            raise UsageError(f"--set: {section}: expected a mapping of values, got {values!r}")
    if as_json:
        _document({"replace": "nodes", **found})
        return
    typer.echo(listing.text(catalogue.find(paper, row), found), nl=False)


def _apply(paper: str, row: str) -> None:
    import tempfile
    from pathlib import Path

    from vse_pipe.core.console import say
    from vse_pipe.papers import catalogue, listing, overlay
    from vse_pipe.papers.overlay import overlay as overlay_overlay
    from vse_pipe.papers.overlay import run_name
    from vse_pipe.project.params import overlay as overlays
    from vse_pipe.project.paths import PARAMS

    found, entry = overlay_overlay(paper, row), catalogue.find(paper, row)
    enter_root()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "row.yaml"
        path.write_text(listing.text(entry, found), encoding="utf-8")
        back = undo(PARAMS)
        overlays.apply(PARAMS, str(path), _overrides, [overlay.row_problems])
    name = run_name(entry)
    say(f"{PARAMS} now describes {entry.marker} as run {name}; `dvc repro` runs it{back}")


def _document(found: object) -> None:
    typer.echo(json.dumps(found, indent=2, allow_nan=False))
