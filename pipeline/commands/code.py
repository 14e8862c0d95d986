"""vse-pipe code."""

from pipeline.commands import _project


def code() -> None:
    """List the modules that each stage runs below data/code/; the first stage of a project that `vse-pipe init` made.

    DVC watches these lists, so that after an upgrade the stages run again of which a module has changed.
    """
    from pipeline.tools import code_lists

    _project.enter_root()
    code_lists.write(_project.overrides, _find)


def _find() -> dict[str, str]:
    from pipeline.core.console import warn
    from pipeline.project.code import listings

    params = _project.params()
    if not params.runs:
        warn("params.yaml names no runs, and there is nothing to report on")
    return listings(params)
