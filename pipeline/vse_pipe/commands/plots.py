"""vse-pipe plots."""

from vse_pipe.commands._project import enter_root


def plots() -> None:
    """Write .dvc/plots.html, the page that `dvc plots` fills. Vega is in it, so plots need no network."""
    enter_root()
    from pathlib import Path

    from vse_pipe.core.console import say
    from vse_pipe.tools.plots import plots_page

    say(f"plots: {plots_page.write(Path())}; `dvc plots show` and `dvc plots diff` now work offline")
