"""vse-pipe encode: vectors of captions and photographs of the user's own, by a trained run."""

from pathlib import Path
from typing import Annotated

import typer

from vse_pipe.commands import _completion, _project
from vse_pipe.commands._project import AsJson, Device
from vse_pipe.core.errors import UsageError

Run = Annotated[str, typer.Option(help="a name under runs: in params.yaml", autocompletion=_completion.section("runs"))]
Captions = Annotated[
    Path | None, typer.Option(help="a text file with a caption a line, or a .csv or .tsv with a header")
]
Column = Annotated[str | None, typer.Option(help="with a table: its column of captions (default: caption or text)")]
Images = Annotated[Path | None, typer.Option(help="a folder of pictures; folders in it count too")]
Out = Annotated[Path, typer.Option(help="the .parquet file to write")]


def encode(
    run: Run,
    out: Out,
    captions: Captions = None,
    images: Images = None,
    column: Column = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Write the vectors of your own captions or photographs by a trained run, to one file."""
    if (captions is None) == (images is None):
        raise UsageError("encode what? give --captions FILE or --images FOLDER, one of them")
    if column is not None and captions is None:
        raise UsageError("--column is of --captions")
    source, out = (captions or images).resolve(), out.resolve()  # type: ignore[union-attr]
    params = _project.params()
    name = _project.one_run(run, params)
    from vse_pipe.tools import encode

    if captions is not None:
        told = encode.encode_captions(params, name, source, column, out, device)
    else:
        told = encode.encode_images(params, name, source, out, device)
    if as_json:
        from vse_pipe.core.console import document

        document(told)
