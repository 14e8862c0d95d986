"""vse-pipe doctor."""

import typer

from pipeline.commands._project import AsJson


def doctor(as_json: AsJson = False) -> None:
    """Look at this machine: versions, torch and torchvision, devices, disk, DVC's settings, weights; status 1 when one fails."""
    from pipeline.tools.doctor import show, stage

    raise typer.Exit(show.show(stage.examine(), as_json))
