"""vse-pipe code."""

from pipeline.commands import _project


def code() -> None:
    """List the modules that each stage runs below data/code/; the first stage of a project that `vse-pipe init` made.

    DVC watches these lists, so that after an upgrade the stages run again of which a module has changed.
    """
    params = _project.params()
    from pipeline.core.locks import claim
    from pipeline.core.whole import whole_folder
    from pipeline.project import paths
    from pipeline.project.code import listings

    with claim(paths.CODE), whole_folder(paths.CODE) as building:
        for stage, text in listings(params).items():
            file = building / paths.code(stage).relative_to(paths.CODE)
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"{text}\n", encoding="utf-8")
