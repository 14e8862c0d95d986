"""vse-pipe verify."""

import os
from pathlib import Path
from typing import Annotated

import typer

from vse_pipe.commands._project import AsJson
from vse_pipe.core.errors import UsageError


def verify(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="files and folders (default: everything in data/ and reports/)", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read every byte of the artefacts and compare it with recorded digests. Exit status 5 where one differs."""
    from vse_pipe.project.paths import find_root

    given = [path.absolute() for path in paths or []]
    try:
        os.chdir(find_root(Path.cwd()))
    except UsageError:
        if not given:
            raise
    from vse_pipe.tools.verify import show, stage

    below = Path.cwd()
    wanted = [path.relative_to(below) if path.is_relative_to(below) else path for path in given]
    raise typer.Exit(show.show(stage.verify(wanted), as_json))
