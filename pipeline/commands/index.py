"""vse-pipe index."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands import _completion, _project
from pipeline.commands._project import AsJson, Device
from pipeline.core.errors import UsageError


def index(
    folder: Annotated[
        Path | None, typer.Argument(help="of pictures; all that were indexed before when left out", show_default=False)
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            help="a name under runs: in params.yaml, whose model it is; the one before, or the best in reports/metrics.json",
            autocompletion=_completion.section("runs"),
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="of the collection in params.yaml; that of the folder when left out")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="an index file for another program too: faiss, usearch, hnswlib, lancedb, npy or parquet",
            autocompletion=_completion.targets,
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="the folder of that index")] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Make a folder of pictures searchable; called again, bring it up to date.

    The pictures need no captions. params.yaml gets a data set, its features and a transfer of the run; pictures are read,
    features and vectors computed, of later calls only those that are new or have changed.
    """
    if (to is None) != (out is None):
        raise UsageError("--to and --out go together")
    given, exported = folder and folder.absolute(), out and out.absolute()
    params = _project.params()
    from pipeline.core.console import say
    from pipeline.papers import rows
    from pipeline.project import paths
    from pipeline.project.params import overlay
    from pipeline.tools.index import entries

    names = _indexed(params) if given is None else None
    if given is not None:
        source = entries.source_of(given)
        dataset = entries.dataset_of(params, source, name)
        names = entries.collections(params, dataset) if run is None else []
        if not names:
            chosen = _run(params, run)
            if added := entries.added(params, source, dataset, chosen):
                overlay.add(paths.PARAMS, added, [rows.problems])
                said = ", ".join(f"{section}.{key}" for section, of in added.items() for key in of)
                say(f"index: params.yaml has {said} now")
                params = _project.params()
            models = params.models(chosen)
            names = [key for key in entries.collections(params, dataset) if params.trained(key) in models]
    with _project.reserved(map(paths.embedded, names)):
        from pipeline.tools.index import stage
    outs = stage.index(params, names, device)
    if to is not None:
        from pipeline.tools.export.stage import export_run

        if len(names) > 1:
            raise UsageError(f"--to: which one? give --run: {', '.join(names)}")
        export_run(params, names[0], "nns", to, "text_to_image", exported, device)
        outs.append(exported)
    _project.wrote(outs, as_json)


def _indexed(params) -> list[str]:
    """Everything of data sets that are folders."""
    from pipeline.tools.index import entries

    found = [
        name
        for key, one in params.datasets.items()
        if one.format.name == entries.FORMAT
        for name in entries.collections(params, key)
    ]
    if not found:
        raise UsageError("index what? params.yaml has no folder of pictures yet; name one: vse-pipe index FOLDER")
    return found


def _run(params, run: str | None) -> str:
    """As params.yaml names it."""
    from pipeline.core.console import say
    from pipeline.core.unknown import unknown
    from pipeline.tools.search.choose import best

    known = params.named(params.runs)
    if run is not None:
        if run not in known:
            raise UsageError(unknown("run", run, known))
        return run
    if not known:
        raise UsageError("index by which model? params.yaml has no run yet")
    from pipeline.project.repetitions import entry

    found, why = best(params, "nns", list(params.runs))
    say(f"index: run {entry(found)}, {why}")
    return entry(found)
