"""vse-pipe doctor."""

import typer

from vse_pipe.commands._project import AsJson


def doctor(as_json: AsJson = False) -> None:
    """Check this machine: versions, torch, devices, disk, DVC's settings, weights. Exit status 1 where one fails."""
    from vse_pipe.tools.doctor import show, stage

    raise typer.Exit(show.show(stage.examine(), as_json))
