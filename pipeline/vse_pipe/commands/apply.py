"""vse-pipe apply."""

from pathlib import Path
from typing import Annotated

import typer

from vse_pipe.commands import _completion, _project

# The overlays that ship with the package: vse_pipe.project.params.overlay, which takes long to import, finds them there.
_OVERLAYS = sorted(path.stem for path in (Path(__file__).parents[1] / "project" / "params" / "overlays").glob("*.yaml"))


def apply(
    overlay: Annotated[
        str,
        typer.Argument(
            help=f"a YAML file, or a packaged overlay ({', '.join(_OVERLAYS)})", autocompletion=_completion.overlays
        ),
    ],
) -> None:
    """Write an overlay, and the values of --set, into params.yaml. `dvc repro` then runs what it describes.

    Entries of datasets, features, texts, noises, teachers, runs, ensembles and transfers are added; an entry of the same name is
    replaced. Other sections are merged key by key. Entries that the overlay does not name stay, unless it says `replace: nodes`
    (remove all of them first) or `replace: [runs]` (those of the sections in brackets).
    """
    from vse_pipe.core.console import say
    from vse_pipe.papers import overlay as papers_overlay
    from vse_pipe.project.params import overlay as overlays
    from vse_pipe.project.paths import PARAMS
    from vse_pipe.tools.init.stage import kept

    source = str(Path(overlay).resolve()) if Path(overlay).is_file() else overlay
    _project.enter_root()
    undo = _project.undo(PARAMS)
    overlays.apply(PARAMS, source, _project.overrides, [papers_overlay.row_problems])
    if left := kept(PARAMS, source, _project.overrides):
        say(f"kept from before, unlike a new project: {', '.join(left)}")
    say(f"{PARAMS} now describes {overlay}; `dvc repro` runs it{undo}")
