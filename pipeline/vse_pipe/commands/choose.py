"""vse-pipe choose."""

from pathlib import Path
from typing import Annotated

import typer

from vse_pipe.commands import _completion, _project
from vse_pipe.commands._project import AsJson, Device


def choose(
    grid: Annotated[Path, typer.Option(help="a YAML file with the values to try, by run and option")],
    run: Annotated[
        str | None,
        typer.Option(help="one run of the grid (default: all)", autocompletion=_completion.section("runs")),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(min=0, help="number of seeds to train the chosen setting with later; 0 leaves seeds as they are"),
    ] = 5,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Train every setting of a grid and write the best of each run, by val, into params.yaml.

    All runs of a grid have the same number of settings. Finished settings stay in data/choose/: a killed call goes on where it was, and
    after the grid has grown only new settings are trained. The split test is never read.
    """
    from vse_pipe.core.console import document, line, say
    from vse_pipe.papers import overlay
    from vse_pipe.project import paths
    from vse_pipe.tools import choose
    from vse_pipe.tools import choose as grids

    path, further = grid.resolve(), [overlay.row_problems]
    found = grids.read(path, _project.params())
    names = _project.chosen(run, found, "run of the grid")
    choose.check(names, seeds, _project.overrides, further)
    settings = [setting for name in names for setting in found[name]]
    params = {setting.out: choose.params_of(setting, _project.overrides, further) for setting in settings}
    say(f"choose: {len(settings)} settings of {len(names)} runs")
    tried = {name: choose.tried(found[name], params, device) for name in names}
    best = {name: choose.best(ones) for name, ones in tried.items()}
    back = _project.undo(paths.PARAMS)
    choose.write([one.setting for one in best.values()], seeds, further)
    if as_json:
        document(
            {name: {"tried": [one.as_json() for one in tried[name]], "best": best[name].as_json()} for name in names}
        )
        return
    for name in names:
        for one in sorted(tried[name], key=lambda one: -one.val_rsum):
            line(f"{'*' if one is best[name] else ' '} {name} {one.setting}: {one.figures}")
    say(f"params.yaml now has the settings marked *; `dvc repro` trains them{back}")
    if _project.overrides:
        say(f"choose: tried with {', '.join(_project.overrides)}, which params.yaml does not have")
