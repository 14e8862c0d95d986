"""vse-pipe timings."""

import typer

from pipeline.commands import _project
from pipeline.commands._project import AsJson


def timings(as_json: AsJson = False) -> None:
    """Show how many seconds each stage took when it last ran here."""
    from pipeline.core.console import document
    from pipeline.project import timing

    _project.enter_root()
    seconds = timing.collect()
    if as_json:
        document(seconds)
        return
    for name, spent in seconds.items():
        typer.echo(f"{spent:10.1f} s  {name}")
