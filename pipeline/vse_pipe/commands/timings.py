"""vse-pipe timings."""

import typer

from vse_pipe.commands import _project
from vse_pipe.commands._project import AsJson


def timings(as_json: AsJson = False) -> None:
    """Show how many seconds each stage took when it last ran here."""
    from vse_pipe.core.console import document
    from vse_pipe.project import timing

    _project.enter_root()
    seconds = timing.collect()
    if as_json:
        document(seconds)
        return
    for name, spent in seconds.items():
        typer.echo(f"{spent:10.1f} s  {name}")
