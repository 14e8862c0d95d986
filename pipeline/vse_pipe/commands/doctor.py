"""vse-pipe doctor."""

import typer

from vse_pipe.commands._project import AsJson


def doctor(as_json: AsJson = False) -> None:
    """Check this machine: versions of Python and packages, devices, extras. Exit status 1 where one fails."""
    from vse_pipe.tools.doctor import examine, show

    raise typer.Exit(show(examine(), as_json))
