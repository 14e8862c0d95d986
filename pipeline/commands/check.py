"""vse-pipe check."""

import typer

from pipeline.commands import _project
from pipeline.commands._project import AsJson


def check(as_json: AsJson = False) -> None:
    """Check params.yaml, dvc.yaml against the code, and every artefact against those it was made from; computes nothing.

    Exit status: 2 for params.yaml and dvc.yaml, 3 for an artefact that cannot be used, 5 for one made from other inputs
    or parameters than there are now; of several the lowest.
    """
    _project.enter_root()
    from pipeline.tools.check import show, stage

    raise typer.Exit(show.show(stage.check(_project.overrides), as_json))
