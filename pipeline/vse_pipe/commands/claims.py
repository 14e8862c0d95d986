"""vse-pipe claims."""

from pathlib import Path
from typing import Annotated

import typer

from vse_pipe.commands import _project
from vse_pipe.commands._project import AsJson
from vse_pipe.commands.compare import AsMarkdown, Resamples, Seed
from vse_pipe.core.errors import UsageError


def claims(
    file: Annotated[str, typer.Argument(help="a YAML file of claims, or `papers`: the claims of five papers")],
    skip_unknown: Annotated[
        bool, typer.Option("--skip-unknown", help="where params.yaml lacks a run, give no verdict instead of an error")
    ] = False,
    as_markdown: AsMarkdown = False,
    as_json: AsJson = False,
    resamples: Resamples = 1000,
    seed: Seed = 1,
) -> None:
    """Judge claims of papers by paired intervals: a claim holds, does not hold, or cannot be told from these data.

    The file names for each claim two runs, a figure and a direction. There is no verdict on a run that has not converged, whose
    figure lies below the floor in the file, or that has fewer trainings than the file requires.
    """
    if as_markdown and as_json:
        raise UsageError("--md and --json exclude each other")
    start = Path.cwd()
    params = _project.params()
    from vse_pipe.tools import claims

    found = claims.claims(params, claims.find(file, start), resamples, seed, skip_unknown)
    shown = claims.as_document if as_json else claims.markdown if as_markdown else claims.terminal
    shown(*found, resamples, seed)
