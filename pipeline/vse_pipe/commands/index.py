"""vse-pipe index."""

from pathlib import Path
from typing import Annotated

import typer

from vse_pipe.commands import _completion, _project
from vse_pipe.commands._project import AsJson, Device
from vse_pipe.core.errors import UsageError

Model = Annotated[
    str | None,
    typer.Option(
        help="pretrained pair to use instead of a run: an architecture of open_clip, such as ViT-B-32, or a file that describes one"
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(help="weights of --model: a file, or the name of published weights, such as laion2b_s34b_b79k"),
]
Sha256 = Annotated[
    str | None, typer.Option(help="sha256 that the weights must have (default for a file: its present sha256)")
]


def index(
    folder: Annotated[
        Path | None,
        typer.Argument(help="the folder of pictures (default: all folders indexed before)", show_default=False),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            help="run whose model to use (default: the run used last, else the best in reports/metrics.json)",
            autocompletion=_completion.section("runs"),
        ),
    ] = None,
    model: Model = None,
    weights: Weights = None,
    sha256: Sha256 = None,
    name: Annotated[
        str | None, typer.Option(help="name of the collection in params.yaml (default: the folder's name)")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="also write an index for another program: faiss, npy or parquet",
            autocompletion=_completion.targets,
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="with --to: the folder of that index")] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Make a folder of pictures searchable, or bring it up to date.

    The pictures need no captions. params.yaml gets a data set, its features and a transfer of the run, or a run of the pretrained
    pair. Later calls process new or changed pictures only.
    """
    if (to is None) != (out is None):
        raise UsageError("--to and --out go together")
    pair = _pair(folder, run, model, weights, sha256)
    given, exported = folder and folder.absolute(), out and out.absolute()
    params = _project.params()
    if given is None:
        names = _indexed(params)
    else:
        params, names = _entered(params, given, run, pair, name, device)
    if to is not None and len(names) > 1:
        raise UsageError(f"--to: which one? give --run: {', '.join(names)}")
    from vse_pipe.project import paths

    with _project.reserved(map(paths.embedded, names)):
        from vse_pipe.tools import index
    outs = index.index(params, names, device)
    if exported is not None:
        outs.append(_export(params, names[0], to, exported, device))
    _project.wrote(outs, as_json)


def _export(params, name: str, to: str | None, out: Path, device: str) -> Path:
    from vse_pipe.tools.export.stage import export_run

    assert to is not None
    export_run(params, name, "nns", to, "text_to_image", out, device)
    return out


def _entered(params, folder: Path, run: str | None, pair: dict[str, str], name: str | None, device: str):
    """params.yaml with what it lacked for this folder, written, and the names of what is to be embedded."""
    from vse_pipe.core.console import say
    from vse_pipe.papers import overlay
    from vse_pipe.project import paths
    from vse_pipe.project.params import overlay as params_overlay
    from vse_pipe.project.repetitions import entry
    from vse_pipe.tools import index

    source = index.source_of(folder)
    dataset = index.dataset_of(params, source, name)
    there = index.collections(params, dataset)
    if pair:
        there = [one for one in there if index.is_pair(params, one, pair)]
    if run is not None:  # the collection's own pair, or its transfer by name
        there = [one for one in there if run in (one, entry(one))]
    if there:
        return params, there
    chosen = dataset if pair else _run(params, run)
    if pair and dataset in params.datasets:
        raise UsageError(f"index: '{dataset}' is of another model already; give --name for one more")
    added = index.of_pair(source, dataset, pair, device) if pair else index.added(params, source, dataset, chosen)
    if added:
        params_overlay.add(paths.PARAMS, added, [overlay.row_problems])
        said = ", ".join(f"{section}.{key}" for section, of in added.items() for key in of)
        say(f"index: params.yaml has {said} now")
        params = _project.params()
    models = params.models(chosen)
    return params, [key for key in index.collections(params, dataset) if params.trained(key) in models]


def _pair(
    folder: Path | None, run: str | None, model: str | None, weights: str | None, sha256: str | None
) -> dict[str, str]:
    """The options of a pretrained pair, its files by absolute names; empty where none is asked for."""
    if model is None and weights is None and sha256 is None:
        return {}
    if model is None or weights is None or run is not None or folder is None:
        raise UsageError("--model and --weights go together, with a folder and without --run")
    files = {key: Path(value).expanduser() for key, value in (("model", model), ("weights", weights))}
    found = {"model": model, "weights": weights} | {
        key: str(path.resolve()) for key, path in files.items() if path.is_file()
    }
    if sha256 is None and files["weights"].is_file():
        from vse_pipe.core import files as hashing

        sha256 = hashing.sha256(files["weights"])
    return found | ({} if sha256 is None else {"sha256": sha256})


def _indexed(params) -> list[str]:
    """Everything of data sets that are folders."""
    from vse_pipe.tools import index

    found = [
        name
        for key, one in params.datasets.items()
        if one.format.name == index.FORMAT
        for name in index.collections(params, key)
    ]
    if not found:
        raise UsageError("index what? params.yaml has no folder of pictures yet; name one: vse-pipe index FOLDER")
    return found


def _run(params, run: str | None) -> str:
    """As params.yaml names it."""
    from vse_pipe.core.console import say
    from vse_pipe.core.errors import unknown
    from vse_pipe.tools.search.choose import best

    known = params.named(params.runs)
    if run is not None:
        if run not in known:
            raise UsageError(unknown("run", run, known))
        return run
    if not known:
        raise UsageError(
            "index by which model? params.yaml has no run yet; name a pretrained pair: --model and --weights"
        )
    from vse_pipe.project.repetitions import entry

    found, why = best(params, "nns", list(params.runs))
    say(f"index: run {entry(found)}, {why}")
    return entry(found)
