"""vse-pipe init, apply, check, code, sources, plots and papers."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from vse_pipe.commands import _help, _project
from vse_pipe.commands._project import AsJson
from vse_pipe.core.console import document, say, warn
from vse_pipe.core.errors import UsageError
from vse_pipe.project.paths import PARAMS


def init(
    folder: Annotated[Path | None, Argument(help="the folder, new or empty", show_default=False)] = None,
    overlay: Annotated[
        str | None, Option(help="what params.yaml describes: an overlay, as of apply", autocompletion=_help.overlays)
    ] = None,
    upgrade: Annotated[
        bool, Option("--upgrade", help="in a project: write dvc.yaml and the workflow as this version has them")
    ] = False,
) -> None:
    """Make a project of your own that runs the installed package.

    It is a git repository with a first commit. params.yaml has what --overlay describes, with the
    values of --set. Without --overlay it has no data sets and no runs yet.
    """
    from vse_pipe.papers import overlay as papers_overlay
    from vse_pipe.tools import init as project

    if (folder is None) != upgrade or (upgrade and overlay):
        raise UsageError("init takes the folder of a new project, or --upgrade and nothing else")
    if folder is not None:
        refused = project.create(folder, overlay, _project.overrides, [papers_overlay.row_problems])
        say(f"init: {folder} is a project; `vse-pipe apply` there adds to its params.yaml")
        if refused:
            warn(f"init: nothing is committed ({refused}); `dvc exp run` needs a commit: `git add -A && git commit`")
        return
    _project.enter_root()
    renewed = ", ".join(project.upgrade())
    say(f"init: {renewed} are of this version now; `git diff` shows it, `vse-pipe check` says what else has to change")


# Packaged overlays. vse_pipe.project.params.overlay lists them too, but takes long to import.
_OVERLAYS = sorted(path.stem for path in (Path(__file__).parents[1] / "project" / "params" / "overlays").glob("*.yaml"))


def apply(
    overlay: Annotated[str, Argument(help=f"a YAML file, or {', '.join(_OVERLAYS)}", autocompletion=_help.overlays)],
) -> None:
    """Write an overlay, and the values of --set, into params.yaml.

    Entries of datasets, features, texts, noises, teachers, runs, ensembles and transfers are added;
    an entry of the same name is replaced. Other sections are merged key by key. Entries that the
    overlay does not name stay, unless it says `replace: nodes` (remove all of them first) or
    `replace: [runs]` (those of the sections in brackets).
    """
    from vse_pipe.papers import overlay as papers_overlay
    from vse_pipe.project.params import overlay as overlays

    source = str(Path(overlay).resolve()) if Path(overlay).is_file() else overlay
    _project.enter_root()
    overlays.apply(PARAMS, source, _project.overrides, [papers_overlay.row_problems])
    say(f"{PARAMS} now describes {overlay}; `dvc repro` runs it")


def check(as_json: AsJson = False) -> None:
    """Check params.yaml, dvc.yaml, artefacts, and what a run needs. Nothing is computed or fetched.

    Exit status: 2 for params.yaml and dvc.yaml, 3 for an artefact that cannot be used, 5 for an
    artefact made from other inputs or parameters than there are now. Where several apply, it is the
    lowest.
    """
    _project.enter_root()
    from vse_pipe.tools import check

    raise typer.Exit(check.show(check.check(_project.overrides), as_json))


def code() -> None:
    """Write data/code/, lists of the modules that each stage runs.

    DVC watches these lists. After an upgrade it runs the stages again whose modules have changed.
    """
    from vse_pipe.project import sources
    from vse_pipe.project.code import listings

    params = _project.params()
    if not params.runs:
        warn("params.yaml names no runs, and there is nothing to report on")
    sources.write_code(listings(params))


def sources() -> None:
    """List the files from outside that each stage reads: the first stage of dvc.yaml.

    DVC watches these lists, below data/sources/. Only files with another size or time are read.
    """
    from vse_pipe.project import sources, stages

    sources.write_sources(stages.sources(_project.params()))


def plots() -> None:
    """Write .dvc/plots.html, the page that `dvc plots` fills. Plots then need no network."""
    _project.enter_root()
    from vse_pipe.tools import init as project

    say(f"plots: {project.write_plots_page(Path())}; `dvc plots show` and `dvc plots diff` now work offline")


def papers(
    paper: Annotated[
        str | None, Argument(help="a paper (default: all)", show_default=False, autocompletion=_help.papers)
    ] = None,
    row: Annotated[str | None, Argument(help="a row, such as 2.12, or 2.12:code", show_default=False)] = None,
    apply: Annotated[bool, Option("--apply", help="write the parameters of the row into params.yaml")] = False,
    as_json: AsJson = False,
) -> None:
    """List papers with known tables, the rows of a paper, or the parameters that repeat a row."""
    if apply and (paper is None or row is None):
        raise UsageError("--apply needs a paper and a row, for example: vse-pipe papers hal-aaai2020 2.12 --apply")
    if apply and as_json:
        raise UsageError("--apply and --json exclude each other")
    from vse_pipe.papers import catalogue, listing

    if paper is None or row is None:
        if as_json:
            document(listing.papers() if paper is None else listing.rows(paper))
        elif paper is None:
            listing.show_papers(listing.papers())
        else:
            listing.show_rows(paper)
        return
    from vse_pipe.papers import overlay

    values, entry = overlay.overlay(paper, row), catalogue.find(paper, row)
    if apply:
        from vse_pipe.project.params import overlay as overlays

        _project.enter_root()
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
            file.write(listing.text(entry, values))
            file.flush()
            overlays.apply(PARAMS, file.name, _project.overrides, [overlay.row_problems])
        say(f"{PARAMS} now describes {entry.marker} as run {overlay.run_name(entry)}; `dvc repro` runs it")
        return
    from vse_pipe.project.params.document import with_overrides

    values = with_overrides(values, _project.overrides, "the row's overlay")
    for section, entries in values.items():
        if section != "seed" and not isinstance(entries, dict):
            raise UsageError(f"--set: {section}: expected a mapping of values, got {entries!r}")
    if as_json:
        document({"replace": "nodes", **values})
    else:
        typer.echo(listing.text(entry, values), nl=False)
