"""vse-pipe check."""

import typer

from vse_pipe.commands import _project
from vse_pipe.commands._project import AsJson


def check(as_json: AsJson = False) -> None:
    """Check params.yaml, dvc.yaml, and the digests by which artefacts name their inputs. Nothing is computed.

    Exit status: 2 for params.yaml and dvc.yaml, 3 for an artefact that cannot be used, 5 for an artefact made from other inputs or
    parameters than there are now. Where several apply, it is the lowest.
    """
    _project.enter_root()
    from vse_pipe.tools.check import stage

    raise typer.Exit(stage.show(stage.check(_project.overrides), as_json))
