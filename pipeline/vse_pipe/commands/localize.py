"""vse-pipe localize."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vse_pipe.commands import _completion, _project
from vse_pipe.commands._project import AsJson, Device
from vse_pipe.core.errors import UsageError
from vse_pipe.project import paths

if TYPE_CHECKING:
    from vse_pipe.tools.localize import Question


def localize(
    run: Annotated[
        str,
        typer.Option(
            help="a name under runs: in params.yaml, of a data set of regions; it must be embedded",
            autocompletion=_completion.section("runs"),
        ),
    ],
    image: Annotated[Path | None, typer.Option(help="a photo to find phrases in, instead of the test split")] = None,
    phrase: Annotated[
        list[str] | None, typer.Option(help="what to find in the photo; repeat for several phrases")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="the picture file that shows the photo with its boxes (default: localized.png)")
    ] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Find the box of every test phrase and measure how often it is right, or find phrases in a photo."""
    if (image is None) != (not phrase):
        raise UsageError("give a photo with --image and what to find in it with --phrase, or neither")
    if image is None and out is not None:
        raise UsageError("--out names the drawing of a photo; give one with --image")
    if image is not None:
        from vse_pipe.tools.localize import Question

        drawn = (out or Path("localized.png")).resolve()
        return _in_photo(run, Question(image.resolve(), image.name, tuple(phrase or ()), drawn), device, as_json)
    params = _project.params()
    names = _project.chosen_runs(run, params)
    from vse_pipe.localize import inputs

    inputs.check_localizable(params, names[0])
    with _project.reserved(map(paths.localized, names)):
        from vse_pipe.core.devices import resolve_device

        resolve_device(device)
        from vse_pipe.localize import stage

    found = {name: stage.localize(params, name, device) for name in names}
    _project.settle(params, names, paths.localized, stage.FILES)
    return _project.show_each(found, stage.show_localisation, as_json)


def _in_photo(run: str, question: "Question", device: str, as_json: bool) -> None:
    from vse_pipe.tools.localize import check

    question.check()
    params = _project.params()
    _project.one_run(run, params)
    check(params, run)
    from vse_pipe.core.devices import resolve_device
    from vse_pipe.pictures import read

    resolve_device(device)
    content = read.photo(question.photo)
    from vse_pipe.tools import localize

    return localize.localize(params, run, content, question, device, as_json)
