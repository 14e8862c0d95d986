"""vse-pipe pack."""

from pathlib import Path
from typing import Annotated

import typer

from vse_pipe.commands import _completion, _project
from vse_pipe.commands._project import AsJson

Run = Annotated[str, typer.Option(help="a name under runs: in params.yaml", autocompletion=_completion.section("runs"))]
Out = Annotated[Path, typer.Option(help="the folder to write")]
Licence = Annotated[
    str | None,
    typer.Option(
        help="licence of the weights, as hubs name it, such as apache-2.0 (default: the card says that it is unknown)"
    ),
]


def pack(run: Run, out: Out, licence: Licence = None, as_json: AsJson = False) -> None:
    """Write a trained run as a folder for a model hub: weights, vocabulary, configuration, and a card with figures."""
    whole = out.resolve()
    params = _project.params()
    name = _project.one_run(run, params)
    from vse_pipe.core.console import document, say
    from vse_pipe.tools.hub.stage import pack as write

    digests = write(params, name, whole, licence)
    say(f"{out}: run {name}, sha256 of config.json {digests['config.json']}")
    return document({"out": str(out), "sha256": digests}) if as_json else None
