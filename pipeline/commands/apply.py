"""vse-pipe apply."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands import _completion, _project

# The overlays that ship with the package: pipeline.project.params.overlay, which takes long to import, finds them there.
_OVERLAYS = sorted(path.stem for path in (Path(__file__).parents[1] / "project" / "params" / "overlays").glob("*.yaml"))


def apply(
    overlay: Annotated[
        str,
        typer.Argument(
            help=f"a packaged overlay ({', '.join(_OVERLAYS)}) or a YAML file", autocompletion=_completion.overlays
        ),
    ],
) -> None:
    """Write an overlay, and the values of --set, into params.yaml; `dvc repro` then runs what it describes.

    Entries of datasets, features, texts, noises, teachers, runs, ensembles and transfers are added by name, or replaced where there
    is one of that name; other sections are merged key by key. What the overlay does not name stays, unless it says
    `replace: nodes`, for all of these, or names some of them: `replace: [runs]`.
    """
    from pipeline.core.console import say
    from pipeline.papers import rows
    from pipeline.project.params import overlay as overlays
    from pipeline.project.paths import PARAMS
    from pipeline.tools.init.kept import kept

    source = str(Path(overlay).resolve()) if Path(overlay).is_file() else overlay
    _project.enter_root()
    overlays.apply(PARAMS, source, _project.overrides, [rows.problems])
    if left := kept(PARAMS, source, _project.overrides):
        say(f"kept from before, unlike a new project: {', '.join(left)}")
    say(f"{PARAMS} now describes {overlay}; `dvc repro` runs it, `git checkout {PARAMS}` takes it back")
