"""vse-pipe init."""

from pathlib import Path
from typing import Annotated

import typer

from vse_pipe.commands import _completion, _project
from vse_pipe.core.errors import UsageError


def init(
    folder: Annotated[
        Path | None, typer.Argument(help="the folder of the project, new or empty", show_default=False)
    ] = None,
    overlay: Annotated[
        str | None,
        typer.Option(
            help="what params.yaml describes: a packaged overlay, as of `vse-pipe apply`, or a YAML file",
            autocompletion=_completion.overlays,
        ),
    ] = None,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="in a project: write its dvc.yaml anew, as this version has it")
    ] = False,
) -> None:
    """Make a project of your own that runs the installed package: parameters, stages and a workflow.

    It is a git repository with nothing committed. params.yaml has what --overlay describes, with the values of --set. Without
    --overlay it has no data sets and no runs yet.
    """
    from vse_pipe.core.console import say
    from vse_pipe.papers import overlay as papers_overlay
    from vse_pipe.tools.init import stage

    if (folder is None) != upgrade or (upgrade and overlay):
        raise UsageError("init takes the folder of a new project, or --upgrade and nothing else")
    if folder is not None:
        stage.create(folder, overlay, _project.overrides, [papers_overlay.row_problems])
        say(f"init: {folder} is a project, nothing in it is committed; `vse-pipe apply` adds to its params.yaml")
        return
    _project.enter_root()
    fresh, kept = stage.upgrade()
    left = f"; {', '.join(kept)}: yours, left as it is" if kept else ""
    say(f"init: of this version now: {', '.join(fresh)}{left}; `vse-pipe check` says what else has to change")
