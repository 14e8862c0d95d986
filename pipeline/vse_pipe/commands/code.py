"""vse-pipe code."""

from vse_pipe.commands import _project


def code() -> None:
    """Write data/code/, lists of the modules that each stage runs: the first stage of a project made by `vse-pipe init`.

    DVC watches these lists. After an upgrade it runs the stages again whose modules have changed.
    """
    from vse_pipe.tools import lists

    _project.enter_root()
    lists.write_code(_project.overrides, _find)


def _find() -> dict[str, str]:
    from vse_pipe.core.console import warn
    from vse_pipe.project.code import listings

    params = _project.params()
    if not params.runs:
        warn("params.yaml names no runs, and there is nothing to report on")
    return listings(params)
